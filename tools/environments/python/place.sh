# The place of the environment that makes and tests the Python package; sourced by the scripts that
# use the environment.
python_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$python_folder/../python_environment.sh"
python_packages=$python_folder/packages.txt
python_place=$(environment_place python)
