// Text cases: files of `input`, `---- pipeline`, expected, `====`. Each case is a test of its own;
// TERN_ACCEPT=1 rewrites what is expected. `---- error pipeline` expects a message that contains the text. A
// line `# name` may come first.
#pragma once
#include <string>

namespace tern::testing {

// Gives the output of a case; throws for an invalid one.
using RunCase = std::string (*)(const std::string& input, const std::string& pipeline);

// Registers every case of every .txt file in `folder` (below the source folder) as suite.file_name. Call it
// from the initialiser of a static in a test file: tests are registered before main runs. Gives the number of
// cases.
int register_text_cases(const char* suite, const char* folder, RunCase run);

}  // namespace tern::testing
