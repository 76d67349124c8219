# Where PyTorch's environment is; sourced by the scripts beside this one.
#
# It stands outside the checkout, so that every checkout shares it. The stamp is written last and
# holds the versions: without it an environment is not finished.
torch_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
torch_packages=$torch_folder/packages.txt
torch_place=${XDG_DATA_HOME:-$HOME/.local/share}/stringline/torch
torch_stamp=$torch_place/stringline.stamp
