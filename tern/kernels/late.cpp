#include "tern/kernels/late.h"

#include <dlfcn.h>

#include "tern/base/format.h"

namespace tern::kernels {
namespace {

struct File {
  const char* name;  // what it was compiled against: the name carries the version of its interface
  const char* package;
};
constexpr File files[] = {
    {TERN_ONEDNN_FILE, "oneDNN (Debian: libdnnl2)"},
    {TERN_OPENBLAS_FILE, "OpenBLAS (Debian: libopenblas0-openmp)"},
    {TERN_LAPACKE_FILE, "LAPACKE (Debian: liblapacke)"},
};

void* open(Library library) {
  const File& f = files[static_cast<int>(library)];
  void* handle = dlopen(f.name, RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    failf(ErrorKind::not_supported, "this needs {}, which is not installed: {}", f.package, dlerror());
  return handle;
}
void* handle_of(Library library) {
  switch (library) {
    case Library::onednn: {
      static void* const handle = open(library);
      return handle;
    }
    case Library::openblas: {
      static void* const handle = open(library);
      return handle;
    }
    default: {
      static void* const handle = [library] {
        void* opened = open(library);
        // NaNs are numbers here: LAPACK itself carries them through, as PyTorch's results do.
        if (void* set = dlsym(opened, "LAPACKE_set_nancheck")) reinterpret_cast<void (*)(int)>(set)(0);
        return opened;
      }();
      return handle;
    }
  }
}

}  // namespace

void* late_function(Library library, const char* name) {
  void* at = dlsym(handle_of(library), name);
  if (!at)
    failf(ErrorKind::not_supported, "{} has no {}: another version than Tern was built with",
          files[static_cast<int>(library)].package, name);
  return at;
}

}  // namespace tern::kernels
