# The place of OR-Tools' environment; sourced by the scripts in this folder.
ortools_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$ortools_folder/../python_environment.sh"
ortools_packages=$ortools_folder/packages.txt
ortools_place=$(environment_place ortools)
