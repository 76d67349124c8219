#include "tests/cuda/standin/standin.h"
