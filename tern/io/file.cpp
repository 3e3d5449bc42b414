#include "tern/io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tern/base/format.h"

static_assert(std::endian::native == std::endian::little, "tern::io reads little-endian formats in place");

namespace tern::io {

namespace {

constexpr size_t kSmall = 65536;  // to read so much costs less than to map and unmap it
constexpr size_t kBuffer = 1 << 18;
// One system call moves at most this much: Linux stops at 2 GB, and a smaller step costs nothing.
constexpr size_t kStep = size_t{1} << 30;

[[noreturn]] void cannot(const char* verb, const std::string& path) {
  failf(ErrorKind::file, "cannot {} '{}': {}", verb, path, std::strerror(errno));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

struct stat open_for_reading(const std::string& path, Descriptor& file) {
  do file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0) cannot("open", path);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) cannot("open", path);
  if (S_ISDIR(info.st_mode)) failf(ErrorKind::file, "cannot open '{}': it is a folder, not a file", path);
  return info;
}

// Until `size` bytes are there or the file ends; how many there are.
size_t read_some(int fd, uint8_t* to, size_t size, const std::string& path) {
  size_t have = 0;
  while (have < size) {
    ssize_t n = ::read(fd, to + have, std::min(size - have, kStep));
    if (n == 0) break;
    if (n < 0 && errno != EINTR) cannot("read", path);
    if (n > 0) have += static_cast<size_t>(n);
  }
  return have;
}

// Reads to the end, whatever the file's size claims: pipes and /proc say 0.
std::vector<uint8_t> read_all(int fd, size_t expected, const std::string& path) {
  std::vector<uint8_t> bytes(expected);
  size_t have = 0;
  while (true) {
    if (have == bytes.size()) {
      uint8_t probe;
      ssize_t n = ::read(fd, &probe, 1);
      if (n == 0) break;
      if (n < 0) {
        if (errno == EINTR) continue;
        cannot("read", path);
      }
      bytes.resize(std::max<size_t>(2 * have, kBuffer));
      bytes[have++] = probe;
      continue;
    }
    size_t n = read_some(fd, bytes.data() + have, bytes.size() - have, path);
    if (n == 0) break;
    have += n;
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace

Blob own(std::vector<uint8_t> bytes) {
  auto held = new_shared<const std::vector<uint8_t>>(std::move(bytes));
  return {Bytes(held->data(), held->size()), held};
}

Blob own(std::string text) {
  auto held = new_shared<const std::string>(std::move(text));
  return {as_bytes(*held), held};
}

Shared<const MappedFile> MappedFile::open(const std::string& path, MapMode mode) {
  Descriptor file{-1};
  struct stat info = open_for_reading(path, file);
  Shared<MappedFile> map(new MappedFile);
  map->path_ = path;
  map->writable_ = mode == MapMode::copy_on_write;
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    map->memory_ = read_all(file.fd, 0, path);
    map->data_ = map->memory_.data();
    map->size_ = map->memory_.size();
    return map;
  }
  size_t size = static_cast<size_t>(info.st_size);
  if (size <= kSmall) {
    map->aligned_ = static_cast<uint8_t*>(::operator new (size, std::align_val_t{64}));
    map->data_ = map->aligned_;
    map->size_ = read_some(file.fd, map->aligned_, size, path);
    return map;
  }
  int protection = map->writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
  // NORESERVE: a private writable map would otherwise count against memory before anything is written.
  void* data = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_NORESERVE, file.fd, 0);
  if (data == MAP_FAILED) cannot("map", path);
  map->data_ = static_cast<const uint8_t*>(data);
  map->size_ = map->mapped_ = size;
  return map;
}

Shared<const MappedFile> MappedFile::open_shared(const std::string& path, size_t size) {
  Descriptor file{-1};
  do file.fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (file.fd < 0 && errno == EINTR);
  if (file.fd < 0) cannot("open", path);
  struct stat info;
  if (::fstat(file.fd, &info) != 0) cannot("open", path);
  if (!S_ISREG(info.st_mode)) failf(ErrorKind::file, "cannot map '{}': it is not a regular file", path);
  if (size > static_cast<size_t>(info.st_size) && ::ftruncate(file.fd, static_cast<off_t>(size)) != 0)
    cannot("make longer", path);
  Shared<MappedFile> map(new MappedFile);
  map->path_ = path;
  map->writable_ = true;
  if (size == 0) return map;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) cannot("map", path);
  map->data_ = static_cast<const uint8_t*>(data);
  map->size_ = map->mapped_ = size;
  return map;
}

MappedFile::~MappedFile() {
  if (mapped_ != 0) ::munmap(const_cast<uint8_t*>(data_), mapped_);
  if (aligned_) ::operator delete (aligned_, std::align_val_t{64});
}

Blob map_file(const std::string& path, MapMode mode) {
  auto map = MappedFile::open(path, mode);
  return {map->bytes(), map};
}

std::vector<uint8_t> read_file(const std::string& path) {
  Descriptor file{-1};
  struct stat info = open_for_reading(path, file);
  return read_all(file.fd, S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) : 0, path);
}

std::string read_text_file(const std::string& path) {
  std::vector<uint8_t> bytes = read_file(path);
  return std::string(as_text(bytes));
}

void write_file(const std::string& path, Bytes bytes) {
  FileWriter file(path);
  file.write(bytes);
  file.commit();
}

void write_file(const std::string& path, std::string_view text) { write_file(path, as_bytes(text)); }

void MemoryWriter::write(const void* data, size_t size) {
  const uint8_t* from = static_cast<const uint8_t*>(data);
  bytes_.insert(bytes_.end(), from, from + size);
  position_ += size;
}

void MemoryWriter::patch(uint64_t at, const void* data, size_t size) {
  TERN_ASSERT(size <= position_ && at <= position_ - size);
  if (size != 0) std::memcpy(bytes_.data() + at, data, size);
}

std::vector<uint8_t> MemoryWriter::take() {
  position_ = 0;
  return std::exchange(bytes_, {});
}

FileWriter::FileWriter(const std::string& path) : path_(path), target_(path) {
  if (path.empty()) fail(ErrorKind::file, "cannot write '': the path is empty");
  struct stat info;
  bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    failf(ErrorKind::file, "cannot write '{}': it is a folder, not a file", path);
  if (exists) {
    // Renaming over a link would replace the link instead of the file that it names.
    if (char* real = ::realpath(path.c_str(), nullptr)) {
      target_ = real;
      std::free(real);
    }
  }
  if (exists && !S_ISREG(info.st_mode)) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) cannot("write", path);
  } else {
    if (exists && ::access(target_.c_str(), W_OK) != 0) cannot("write", path);
    static std::atomic<unsigned> counter{0};
    mode_t mode = exists ? info.st_mode & 07777 : 0666;
    do {
      temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), counter++);
      fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (fd_ < 0 && (errno == EEXIST || errno == EINTR));
    if (fd_ < 0) cannot("write", path);
    if (exists) (void)!::fchmod(fd_, mode);  // the umask does not apply to a file that was there before
  }
  buffer_.reserve(kBuffer);
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::give_up(const char* doing) const {
  failf(ErrorKind::file, "{} '{}': {} (after {} bytes; the file was left as it was)", doing, path_,
        std::strerror(errno), flushed_);
}

void FileWriter::write(const void* data, size_t size) {
  TERN_ASSERT(fd_ >= 0);
  const uint8_t* from = static_cast<const uint8_t*>(data);
  if (buffer_.size() + size > kBuffer) flush();
  if (size >= kBuffer)
    put(from, size);
  else
    buffer_.insert(buffer_.end(), from, from + size);
  position_ += size;
}

void FileWriter::flush() {
  put(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::put(const uint8_t* data, size_t size) {
  while (size > 0) {
    ssize_t n = ::write(fd_, data, std::min(size, kStep));
    if (n < 0) {
      if (errno == EINTR) continue;
      give_up("cannot write");
    }
    data += n;
    size -= static_cast<size_t>(n);
    flushed_ += static_cast<uint64_t>(n);
  }
}

void FileWriter::patch(uint64_t at, const void* data, size_t size) {
  TERN_ASSERT(size <= position_ && at <= position_ - size);
  if (size == 0) return;
  if (at >= flushed_) {
    std::memcpy(buffer_.data() + (at - flushed_), data, size);
    return;
  }
  flush();
  const uint8_t* from = static_cast<const uint8_t*>(data);
  while (size > 0) {
    ssize_t n = ::pwrite(fd_, from, size, static_cast<off_t>(at));
    if (n < 0) {
      if (errno == EINTR) continue;
      give_up("cannot write back into");
    }
    from += n;
    at += static_cast<uint64_t>(n);
    size -= static_cast<size_t>(n);
  }
}

void FileWriter::commit() {
  TERN_ASSERT(fd_ >= 0);
  flush();
  int fd = std::exchange(fd_, -1);
  // Network file systems report a full disk only here.
  if (::close(fd) != 0) {
    int reason = errno;
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    errno = reason;
    give_up("cannot write");
  }
  if (!temporary_.empty() && ::rename(temporary_.c_str(), target_.c_str()) != 0) {
    int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    give_up("cannot put into place");
  }
}

TemporaryDir::TemporaryDir() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base && *base ? base : "/tmp") + "/tern-XXXXXX";
  if (!::mkdtemp(path_.data())) cannot("make a temporary folder at", path_);
}

TemporaryDir::~TemporaryDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tern::io
