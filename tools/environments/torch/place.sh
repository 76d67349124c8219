# The place of PyTorch's environment; sourced by the scripts in this folder.
torch_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$torch_folder/../python_environment.sh"
torch_packages=$torch_folder/packages.txt
torch_place=$(environment_place torch)
torch_stamp=$torch_place/stringline.stamp
# TorchTitan beside torch, for a test: its files, and the imports of its pipelining code.
titan_packages=$torch_folder/titan.txt
titan_place=$(environment_place titan)
# Holistic Trace Analysis, for another test, without its dependencies for notebooks.
hta_packages=$torch_folder/hta.txt
hta_place=$(environment_place hta)
# Megatron Core, for a test of its pipeline's functions: the last version for Python 3.11.
megatron_packages=$torch_folder/megatron.txt
megatron_place=$(environment_place megatron)
