#include "tern/base/warning.h"

#include <cstdio>

namespace tern {
namespace {
thread_local OnWarning* listening = nullptr;

void to_standard_error(const Warning& w) {
  std::fprintf(stderr, "%s: %s\n", w.category.c_str(), w.text.c_str());
}
void (*otherwise)(const Warning&) = to_standard_error;
}  // namespace

void set_default_warning(void (*receiver)(const Warning&)) { otherwise = receiver; }

void warn(std::string_view category, std::string text) {
  const Warning warning{std::string(category), std::move(text)};
  if (listening) return listening->listener_(warning);
  otherwise(warning);
}

OnWarning::OnWarning(Function<void(const Warning&)> listener)
    : listener_(std::move(listener)), below_(listening) {
  listening = this;
}
OnWarning::~OnWarning() { listening = below_; }

}  // namespace tern
