# Where PyTorch's environment is; sourced by the scripts beside this one.
torch_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$torch_folder/../python_environment.sh"
torch_packages=$torch_folder/packages.txt
torch_place=$(environment_place torch)
torch_stamp=$torch_place/stringline.stamp
# TorchTitan beside it, for one test: its files, and what its pipelining code imports.
titan_packages=$torch_folder/titan.txt
titan_place=$(environment_place titan)
# Holistic Trace Analysis, for another, without the notebooks that it brings along.
hta_packages=$torch_folder/hta.txt
hta_place=$(environment_place hta)
