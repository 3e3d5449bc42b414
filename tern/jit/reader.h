// What reading archives and reading checkpoints share.
#pragma once
#include "tern/base/error.h"
#include "tern/base/pointer.h"
#include "tern/io/zip.h"
#include "tern/jit/unpickle.h"

namespace tern::jit {

// The members of an archive stand in one folder, whose name is anything; "model/".
std::string root_of(const io::ZipReader& zip);
void check_byte_order(const io::ZipReader& zip, const std::string& root);
StorageReader storages_in(const io::ZipReader& zip, std::string folder, bool check_all);
tern::Value read_pickle(const io::ZipReader& zip, const std::string& member, StorageReader storages,
                        Shared<script::Unit> unit);

// Errors say which file it is.
template <class F>
auto with_label(const std::string& label, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.message().starts_with(label)) throw;
    throw Error(e.kind() == ErrorKind::not_supported ? e.kind() : ErrorKind::file,
                label + ": " + e.message());
  }
}

}  // namespace tern::jit
