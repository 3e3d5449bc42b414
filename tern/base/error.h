// The one exception type of Tern. Every error a user can cause ends here; `kind` says which Python
// exception it becomes and which exit code the command gives.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace tern {

enum class ErrorKind : uint8_t {
  runtime,         // RuntimeError: the operation cannot be done on these values
  value,           // ValueError: an argument is outside its domain
  index,           // IndexError: a dimension or position is out of range
  linear_algebra,  // LinAlgError, a RuntimeError: a matrix is singular, or an algorithm does not converge
  type,            // TypeError: an argument has the wrong type
  not_supported,   // NotImplementedError: Tern has no such operator, dtype or feature (exit code 4)
  file,            // the file is unreadable or invalid (exit code 2)
  usage,           // wrong use of the command (exit code 1)
  internal,        // our own mistake; never reachable from a file
};

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  Error(ErrorKind kind, std::string message) : message_(std::move(message)), kind_(kind) {}

  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const noexcept { return message_; }
  ErrorKind kind() const noexcept { return kind_; }

  // The same error with what the caller knows in front: "lowering %conv1 (net.cpp:12): ...".
  Error with_context(std::string_view context) const;

 private:
  std::string message_;
  ErrorKind kind_ = ErrorKind::runtime;
};

[[noreturn]] void fail(std::string message);
[[noreturn]] void fail(ErrorKind kind, std::string message);

// For our own invariants only: a failure is a bug in Tern, not in the user's program or file.
[[noreturn]] void fail_invariant(const char* what, const char* file, int line);
#define TERN_ASSERT(condition) ((condition) ? void() : ::tern::fail_invariant(#condition, __FILE__, __LINE__))

}  // namespace tern
