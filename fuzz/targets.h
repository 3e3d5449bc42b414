// What is fuzzed: every reader of bytes or text from outside. A target gets any bytes and returns; what it
// must never do is crash, hang, allocate without bound, throw anything but an Error that a file may cause, or
// accept a text that does not survive being written and read again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "tern/base/error.h"
#include "tern/base/span.h"

namespace tern::fuzz {

struct Target {
  std::string_view name;  // of the corpus folder and of the program: fuzz_zip
  int (*one)(const uint8_t* data, size_t size);
};
Span<const Target> targets();

int zip(const uint8_t* data, size_t size);          // tern/io: archives
int pickle(const uint8_t* data, size_t size);       // tern/io: pickles
int json(const uint8_t* data, size_t size);         // tern/io: JSON
int npy(const uint8_t* data, size_t size);          // tern/io: .npy and .npz
int safetensors(const uint8_t* data, size_t size);  // tern/io: safetensors
int graph(const uint8_t* data, size_t size);        // tern/ir: the text of a graph
int script(const uint8_t* data, size_t size);       // tern/script: TorchScript source, compiled
int onnx(const uint8_t* data, size_t size);         // tern/onnx: models, read, checked and imported

// A finding: no Error, so that neither the targets nor the readers swallow it.
struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};

// Runs `body`. Errors are what a bad file gives; one of kind `internal` says that Tern itself is wrong.
template <class F>
int survive(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal)
      throw Finding("an internal error from outside: " + error.message());
    if (error.message().empty()) throw Finding("an error without a message");
  }
  return 0;
}

// `body` undoes what a target has just done with accepted input: an Error in it is a finding.
template <class F>
void must(const char* what, F&& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Finding(std::string(what) + ": " + error.message());
  }
}

}  // namespace tern::fuzz
