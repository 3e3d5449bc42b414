#include "tern/base/warning.h"

#include <cstdio>

namespace tern {
namespace {
thread_local OnWarning* listening = nullptr;
}

void warn(std::string_view category, std::string text) {
  if (listening) return listening->listener_({std::string(category), std::move(text)});
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(category.size()), category.data(), text.c_str());
}

OnWarning::OnWarning(Function<void(const Warning&)> listener)
    : listener_(std::move(listener)), below_(listening) {
  listening = this;
}
OnWarning::~OnWarning() { listening = below_; }

}  // namespace tern
