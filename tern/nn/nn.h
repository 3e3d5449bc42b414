// All of nn.
#pragma once
#include "tern/nn/activations.h"
#include "tern/nn/adaptive_softmax.h"
#include "tern/nn/containers.h"
#include "tern/nn/functional.h"
#include "tern/nn/images.h"
#include "tern/nn/init.h"
#include "tern/nn/layers.h"
#include "tern/nn/losses.h"
#include "tern/nn/margin_losses.h"
#include "tern/nn/pooling.h"
#include "tern/nn/rnn.h"
#include "tern/nn/transformer.h"
