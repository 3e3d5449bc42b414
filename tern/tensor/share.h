// Another storage over the same memory, which counts its changes for itself: x.data in Python.
#pragma once
#include "tern/tensor/storage.h"

namespace tern {

// The memory stays where it is as long as either lives; a storage that grows leaves it to the other.
Storage share(const Storage& storage);

}  // namespace tern
