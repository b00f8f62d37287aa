// What the suite reads of itself and may find damaged: journals, parameters, published numbers, the register of rules, archives.
#include "core/error.h"
#include "experiments/claims/claim_report.h"
#include "experiments/claims/registry.h"
#include "results/cell.h"
#include "results/csv.h"
#include "results/files/tar.h"
#include "results/journal.h"
#include "tests/fuzz/target.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

void read_journal(std::string_view input) {
  results::JournalReader reader(as_file("journal.jsonl", input));
  reader.poll();
  if (!reader.poll().empty()) throw Finding("a journal that nobody writes has new lines");
}
const bool journals =
    register_target({"journal", "OUT/journal/N.jsonl", 10'000, read_journal,
                     [] { return std::vector<std::string>{"{\"event\":\"cell_started\",\"cell_id\":\"ab\",\"time\":1.5,\"elapsed\":2}\n{\"event\":\"message\",\"reason\":\"\\u00e9\"}\n{\"ev"}; }});

void read_parameters(std::string_view input) {
  const results::Parameters parameters = results::Parameters::from_json(input, "fuzz");
  const std::string canonical = parameters.canonical_json();
  if (results::Parameters::from_json(canonical, "fuzz").canonical_json() != canonical) throw Finding("canonical parameters are read as others: " + canonical);
  results::cell_id("p", 2, "shm", parameters);
}
const bool parameters = register_target({"parameters", "parameters of a cell, as launches and records hold them", 270'000, read_parameters,
                                         [] { return std::vector<std::string>{R"({"a":1,"b":0.5,"c":true,"d":"text","e":-3,"f":1e300,"g":"8.0","h":""})"}; }});

void read_csv(std::string_view input) {
  results::Table like;
  like.columns.push_back({"name", std::vector<std::string>()});
  like.columns.push_back({"n", std::vector<std::int64_t>()});
  like.columns.push_back({"value", std::vector<double>()});
  const results::Table table = results::table_from_csv(std::string(input), like, "fuzz");
  const results::Table again = results::table_from_csv(results::to_csv(table), like, "fuzz");
  if (again.rows() != table.rows() || results::to_csv(again) != results::to_csv(table)) throw Finding("to_csv gives another table");
}
const bool csvs = register_target(
    {"csv", "published numbers and exported tables", 190'000, read_csv, [] { return std::vector<std::string>{"name,n,value\na,1,0.5\n\"b, \"\"c\"\"\",-2,nan\n\"two\nlines\",3,-inf\n,0,1e-300\n"}; }});

void read_register(std::string_view input) {
  const claims::Registry registry = claims::registry_from(std::string(input), "fuzz");
  const std::string text = claims::to_text(registry);
  if (claims::to_text(claims::registry_from(text, "fuzz")) != text) throw Finding("to_text gives another register");
}
const bool registers = register_target(
    {"claims_register", "experiments/claims/registry.lock", 160'000, read_register, [] {
       return std::vector<std::string>{
           R"({"schema":1,"written_by":"claims lock","rules":{"a.C1":{"hash":"48ce","date":"2026-11-25","changes":[{"date":"d","former_hash":"f","what":"w","why":"y"}]},"b":{"hash":"","date":"","changes":[]}}})"};
     }});

void read_verdicts(std::string_view input) {
  const std::vector<claims::Judged> judged = claims::from_json(std::string(input), "fuzz");
  claims::to_text(judged);
  const std::string text = claims::to_json(judged);
  if (claims::to_json(claims::from_json(text, "fuzz")) != text) throw Finding("to_json gives other verdicts");
}
std::vector<std::string> verdict_seeds() {
  claims::Judged judged;
  judged.id = "a.C1", judged.statement = "s", judged.basis = "exact", judged.profile = "smoke", judged.cells = {"ab"};
  judged.changes.resize(1), judged.earlier.resize(1);
  return {claims::to_json({judged})};
}
const bool verdicts = register_target({"claims_verdicts", "claims.json", 140'000, read_verdicts, verdict_seeds});

void read_archive(std::string_view input) {
  std::size_t at = 0, kept = 0;
  results::read_tar(
      [&](char* bytes, std::size_t size) {
        const std::size_t count = input.substr(at).copy(bytes, std::min<std::size_t>(size, 700));
        at += count;
        return count;
      },
      "fuzz",
      [&](const results::TarMember& member) -> results::ByteSink {
        if (!results::is_safe_member_name(member.name)) throw Finding("a member of an unsafe name: " + member.name);
        if (member.bytes % 2 == 1) return {};
        return [&](std::string_view bytes) { kept += bytes.size(); };
      });
  if (kept > input.size()) throw Finding("more content than archive");
}
std::vector<std::string> archive_seeds() {
  std::string text;
  results::TarWriter writer([&](std::string_view bytes) { text += bytes; });
  writer.add_text("a.txt", "hello");
  writer.add_text("folder/" + std::string(90, 'n') + "/b", std::string(600, 'x'));
  writer.add_text("empty", "");
  writer.finish();
  return {text};
}
const bool archives = register_target({"archive", "what sweep validate and sweep run --from read, once unpacked by zstd", 330'000, read_archive, archive_seeds});

}  // namespace
}  // namespace thinwire::fuzz
