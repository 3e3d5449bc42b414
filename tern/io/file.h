// Files as bytes: mapping, whole reads, and writing that never leaves a half-written file behind.
// Nothing here knows any format.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/base/span.h"

namespace tern::io {

using Bytes = Span<const uint8_t>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Borrowed bytes together with what keeps them alive. Cheap to copy.
struct Blob {
  Bytes bytes;
  Shared<const void> owner;
};
Blob own(std::vector<uint8_t> bytes);
Blob own(std::string text);

enum class MapMode : uint8_t {
  read_only,      // writing to the bytes ends the process
  copy_on_write,  // pages that are written become private memory; the file never changes
};

// A file mapped into memory, shared by everything that borrows from it. Pipes and small files are read
// instead of mapped.
class MappedFile {
 public:
  // Throws ErrorKind::file with path and reason.
  static Shared<const MappedFile> open(const std::string& path, MapMode mode = MapMode::read_only);
  // The first `size` bytes, and what is written to them is written to the file, which is made or made longer
  // as needed.
  static Shared<const MappedFile> open_shared(const std::string& path, size_t size);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }
  bool writable() const { return writable_; }

 private:
  MappedFile() = default;

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;  // bytes to unmap; 0 when the content was read
  bool writable_ = false;
  std::vector<uint8_t> memory_;  // of a pipe
  uint8_t* aligned_ = nullptr;   // of a small file; its own
};

Blob map_file(const std::string& path, MapMode mode = MapMode::read_only);
std::vector<uint8_t> read_file(const std::string& path);
std::string read_text_file(const std::string& path);
void write_file(const std::string& path, Bytes bytes);
void write_file(const std::string& path, std::string_view text);

// Where a writer's bytes go.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const void* data, size_t size) = 0;
  // Overwrites bytes that were written before.
  virtual void patch(uint64_t at, const void* data, size_t size) = 0;

  void write(Bytes bytes) { write(bytes.data(), bytes.size()); }
  void write(std::string_view text) { write(text.data(), text.size()); }
  uint64_t position() const { return position_; }  // bytes written so far

 protected:
  uint64_t position_ = 0;
};

class MemoryWriter final : public Sink {
 public:
  using Sink::write;
  void write(const void* data, size_t size) override;
  void patch(uint64_t at, const void* data, size_t size) override;
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  std::vector<uint8_t> take();

 private:
  std::vector<uint8_t> bytes_;
};

// Writes to a temporary beside the target; commit() renames it into place, so the target is either
// the old file or the whole new one, and a map of the old file stays valid. Without commit() nothing remains.
class FileWriter final : public Sink {
 public:
  explicit FileWriter(const std::string& path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() override;

  using Sink::write;
  void write(const void* data, size_t size) override;
  void patch(uint64_t at, const void* data, size_t size) override;
  void commit();
  const std::string& path() const { return path_; }

 private:
  void flush();
  void put(const uint8_t* data, size_t size);
  [[noreturn]] void give_up(const char* doing) const;

  std::string path_;       // as the caller named it
  std::string target_;     // with links resolved
  std::string temporary_;  // empty when the target is a device or pipe and is written directly
  int fd_ = -1;
  std::vector<uint8_t> buffer_;
  uint64_t flushed_ = 0;
};

// A new folder that is removed with everything in it.
class TemporaryDir {
 public:
  TemporaryDir();
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  ~TemporaryDir();
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace tern::io
