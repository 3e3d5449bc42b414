// NumPy's .npy and .npz files. An array is its bytes and what the header says of them; turning the
// descr into a dtype is the business of the tensor room.
#pragma once
#include "tern/io/zip.h"

namespace tern::io {

struct NpyArray {
  std::string descr;  // as in the file: "<f4", "|b1", ">i8", "<U5", "|V2"
  bool fortran = false;
  std::vector<int64_t> shape;
  // In the order and byte order that the file says. Borrowed from the map when stored; then the address
  // need not be aligned to the item's size.
  Blob data;

  size_t item_size() const;
  int64_t count() const;
  bool big_endian() const { return !descr.empty() && descr[0] == '>'; }
};

// Bytes of one item of a descr; throws for objects and structured types.
size_t npy_item_size(std::string_view descr);

// Versions 1 to 3. `consumed` gets the bytes used, since several arrays may follow each other in a file.
NpyArray parse_npy(Blob file, std::string label = "npy", size_t* consumed = nullptr);
NpyArray read_npy(const std::string& path);  // mapped

// Magic, header and padding as NumPy writes them; the data start at a multiple of 64 bytes.
std::string npy_header(std::string_view descr, bool fortran, Span<const int64_t> shape);
void write_npy(Sink& sink, const NpyArray& array);
void write_npy(const std::string& path, const NpyArray& array);

struct NpzEntry {
  std::string name;  // without .npy
  NpyArray array;
};
// Stored members are mapped, deflated ones inflated. Members that are not .npy are refused.
std::vector<NpzEntry> read_npz(const ZipReader& archive);
std::vector<NpzEntry> read_npz(const std::string& path);
void write_npz(Sink& sink, Span<const NpzEntry> entries, bool deflate = false);
void write_npz(const std::string& path, Span<const NpzEntry> entries, bool deflate = false);

}  // namespace tern::io
