// Tern's public interface for C++: #include <tern/tern.h>.
#pragma once
#include "tern/autograd/autograd.h"
#include "tern/base/error.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/nn/nn.h"
#include "tern/ops.h"
#include "tern/optim/optim.h"
#include "tern/tensor/generator.h"
#include "tern/tensor/tensor.h"
#include "tern/tensor/value.h"
#include "tern/tree/convert.h"
#include "tern/tree/tree.h"
