// Warnings: said once where they arise, to standard error unless somebody listens.
#pragma once
#include <string>
#include <string_view>

#include "tern/base/function.h"

namespace tern {

struct Warning {
  std::string category;  // "TracerWarning", "UserWarning"
  std::string text;
};

void warn(std::string_view category, std::string text);

// Where warnings go that nobody listens to: standard error unless set. Set once, before there are threads.
void set_default_warning(void (*receiver)(const Warning& warning));

// Receives this thread's warnings for a scope instead of standard error.
class OnWarning {
 public:
  explicit OnWarning(Function<void(const Warning&)> listener);
  ~OnWarning();
  OnWarning(const OnWarning&) = delete;

 private:
  Function<void(const Warning&)> listener_;
  OnWarning* below_;
  friend void warn(std::string_view, std::string);
};

}  // namespace tern
