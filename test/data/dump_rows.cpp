// dump_rows FILE: the file's rows as the scanner sees them, a JSON line each, or "! problem". For
// scripts/parity/parquet_check.py.

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "data/row_file.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    verlcpp::data::for_each_row(argv[1], {}, [](const verlcpp::data::FileRow& row) {
      std::puts(row.json == nullptr ? ("! " + row.problem).c_str() : row.json->dump().c_str());
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
