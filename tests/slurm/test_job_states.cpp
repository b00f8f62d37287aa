// labels: slurm
// processors: 1
// Slurm's states as recorded by experiments/slurm/record_states.sh, the table of what they mean, packing, job scripts, leases.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "experiments/slurm/job_script.h"
#include "experiments/slurm/job_states.h"
#include "experiments/slurm/queue.h"
#include "experiments/run/leases.h"
#include "results/files/files.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire::sweep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

const std::string source = testing::source_folder();

std::string recording(const std::string& name) {
  const std::string path = source + "/tests/slurm/recordings/" + name;
  return std::filesystem::exists(path) ? results::read_file(path) : "";
}
bool is_manual(const std::string& text) { return text.starts_with("# manual"); }

TEST(JobStates, EveryStateOfTheTableIsRecordedOrMarkedAsTakenFromTheManual) {
  for (const JobState& state : job_state_table()) {
    const std::string queue = recording(std::string(state.name) + ".squeue");
    const std::string database = recording(std::string(state.name) + ".sacct");
    ASSERT_FALSE(queue.empty() && database.empty()) << state.name;
    EXPECT_EQ(std::string(state.seen) == "manual", is_manual(queue.empty() ? database : queue)) << state.name;
    bool said = false;
    for (const auto& records : {parse_squeue(queue), parse_sacct(database)})
      for (const JobRecord& record : records) said = said || record.state == state.name;
    EXPECT_TRUE(said) << state.name << " is not in its recording";
  }
}

TEST(JobStates, NothingThatMayStillRunIsSubmittedAgainAndEverythingThatIsOverIs) {
  for (const JobState& state : job_state_table()) EXPECT_EQ(state.resubmit, state.phase == JobPhase::over) << state.name;
  EXPECT_FALSE(job_state("A_STATE_OF_TOMORROW").resubmit);
}

// What a cell of that job would be shown as, with and without an accounting database.
TEST(JobStates, RecordedOutputsGiveTheRightWord) {
  struct Expected {
    const char* name;
    const char* shown;
    bool final;  ///< the database knows as well
  };
  for (const Expected& e : {Expected{"COMPLETED", "LOST", true}, {"FAILED", "LOST", true}, {"CANCELLED", "CANCELLED", true},
                            {"TIMEOUT", "LOST", true}, {"NODE_FAIL", "LOST", true}, {"PREEMPTED", "LOST", true},
                            {"DEADLINE", "LOST", true}, {"RUNNING", "RUNNING", false}, {"SUSPENDED", "SUSPENDED", false},
                            {"STOPPED", "SUSPENDED", false}, {"COMPLETING", "RUNNING", false}, {"SPECIAL_EXIT", "HELD", false},
                            {"REQUEUED_PENDING", "QUEUED", false}, {"REQUEUE_HOLD_PENDING", "HELD", false}}) {
    const auto queue = parse_squeue(recording(std::string(e.name) + ".squeue"));
    const auto database = parse_sacct(recording(std::string(e.name) + ".sacct"));
    ASSERT_EQ(queue.size(), 1u) << e.name;
    ASSERT_FALSE(database.empty()) << e.name;
    const std::pair key{queue[0].name, 0};
    EXPECT_STREQ(shown_as(merge_records({}, queue).at(key)), e.shown) << e.name << " without accounting";
    EXPECT_STREQ(shown_as(merge_records(database, queue).at(key)), e.shown) << e.name << " with both";
    if (e.final) {
      EXPECT_STREQ(shown_as(database.back()), e.shown) << e.name << " with accounting alone";
    }
  }
}

TEST(JobStates, ARequeuedJobIsWaitingWhateverTheDatabaseStillSays) {
  const auto queue = parse_squeue("9_1|n|PENDING|BeginTime\n");
  for (const char* old : {"NODE_FAIL", "REQUEUED", "CANCELLED by 0", "TIMEOUT", "PREEMPTED"}) {
    const auto database = parse_sacct("9_1|n|" + std::string(old) + "|0:0\n");
    EXPECT_EQ(merge_records(database, queue).at({"n", 1}).state, "PENDING") << old;
  }
}

TEST(JobStates, WaitingTasksOfAnArrayAreToldOneByOne) {
  const auto records = parse_sacct("12_[3-5,8%2]|n|PENDING|0:0\n12_0|n|CANCELLED by 1000|0:0\n12_1|n|COMPLETED|0:0\n12_1.batch|batch|COMPLETED|0:0\n");
  std::map<int, std::string> states;
  for (const JobRecord& record : records) states[record.task] = record.state;
  EXPECT_EQ(states, (std::map<int, std::string>{{0, "CANCELLED"}, {1, "COMPLETED"}, {3, "PENDING"}, {4, "PENDING"}, {5, "PENDING"}, {8, "PENDING"}}));
  EXPECT_EQ(records[0].job, "12_3");
  std::map<std::string, int> counts;
  for (const JobRecord& record : parse_squeue(recording("PENDING.squeue"))) ++counts[record.state];
  EXPECT_EQ(counts["RUNNING"], 2);
  EXPECT_EQ(counts["PENDING"], 4);
}

TEST(JobStates, LinesThatAreNoJobsArePassedOver) {
  EXPECT_TRUE(parse_squeue("").empty());
  EXPECT_TRUE(parse_squeue("slurm_load_jobs error: Invalid job id specified\n").empty());
  EXPECT_TRUE(parse_sacct("Slurm accounting storage is disabled\n").empty());
  EXPECT_TRUE(parse_sacct("JobID|JobName|State|ExitCode\n1_[x]|n|PENDING|0:0\n1_[1-|n|PENDING|\n-1|n|FAILED|0:0\n").empty());
}

Machine machine_of(const std::string& text) { return machine_from_text(text, "m.toml"); }

TEST(Machines, EveryShippedProfileCanBeRead) {
  for (const char* name : {"local", "local-slurm", "nvlink-infiniband", "ethernet"}) {
    const Machine machine = read_machine(name, "/nowhere");
    EXPECT_EQ(machine.name, name);
    EXPECT_EQ(machine.slurm.present, std::string(name) != "local");
    EXPECT_NE(machine.link_of("shm"), nullptr);
  }
  const std::string unknown = message_of<UsageError>([] { read_machine("local-slrum", "/nowhere"); });
  EXPECT_NE(unknown.find("did you mean local-slurm?"), std::string::npos) << unknown;
}

TEST(Machines, MistakesAreNamedWithLineAndNearestKey) {
  const auto error = [](const std::string& text) { return message_of<UsageError>([&] { machine_of(text); }); };
  EXPECT_NE(error("[slurm]\npartitoin = \"x\"\n").find("m.toml:2: unknown key `partitoin` in [slurm]; did you mean `partition`"), std::string::npos);
  EXPECT_NE(error("[launcher]\nkind = \"aprun\"\n").find("none of: mpirun, srun"), std::string::npos);
  EXPECT_NE(error("[node]\ngpus = 2\ngpu_of_local_rank = [0, 2]\n").find("GPU 2 does not exist"), std::string::npos);
  EXPECT_NE(error("[slurm]\narray_width = \"8\"\n").find("must be a whole number"), std::string::npos);
  EXPECT_NE(error("[slurm]\npartition = \"a b\"\n").find("may not hold spaces"), std::string::npos);
  // A lead that is not within the limit asks jobs to end as they begin; of a limit that is none nothing is known.
  for (const char* limit : {"2", "2:00", "00:02:00", "0-0:2", "0-00:01:59"})
    EXPECT_NE(error("[slurm]\nsignal_lead = 120\ntime_limit = \"" + std::string(limit) + "\"\n").find("is not within time_limit"), std::string::npos) << limit;
  for (const char* limit : {"3", "2:01", "00:02:01", "0-1", "1-0", "1-00:00:00", "UNLIMITED", "", "2:", "1-2-3"})
    EXPECT_NO_THROW(machine_of("[slurm]\nsignal_lead = 120\ntime_limit = \"" + std::string(limit) + "\"\n")) << limit;
  EXPECT_NE(error("[[link]]\nname = \"ether\"\n").find("none of: shm"), std::string::npos);
  EXPECT_NE(error("[environment]\n\"A B\" = \"x\"\n").find("no name of an environment variable"), std::string::npos);
}

TEST(Machines, ShapesFollowLinkAndNode) {
  const Machine machine = machine_of("[node]\nranks = 8\ncores = 16\ngpus = 4\n[[link]]\nname = \"shm\"\n[[link]]\nname = \"fabric\"\nranks_per_node = 2\n");
  EXPECT_EQ(shape_of(machine, "shm", 8, 0).nodes, 1);
  EXPECT_EQ(shape_of(machine, "fabric", 7, 0).nodes, 4);
  EXPECT_EQ(shape_of(machine, "fabric", 1, 0).cores_per_rank, 16);
  EXPECT_EQ(shape_of(machine, "shm", 8, 3).cores_per_rank, 3);
  EXPECT_EQ(shape_of(machine, "shm", 8, 0).gpus_per_node, 4);
  EXPECT_NE(message_of<UsageError>([&] { shape_of(machine, "shm", 9, 0); }).find("holds 8, not 9"), std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { shape_of(machine, "netns:1gbit", 2, 0); }).find("has no link `netns:1gbit`"), std::string::npos);
}

TEST(Machines, CommandsComeFromTheProfileWordByWord) {
  const TemporaryFolder folder;
  RunPaths paths;
  paths.out = folder.path();
  paths.bin = "/programs";
  paths.machine = std::make_shared<Machine>(machine_of(
      "[launcher]\nkind = \"srun\"\noptions = [\"--mpi=pmix\", \"--comment=a b;c\"]\n[node]\ngpus = 2\ngpu_of_local_rank = [1, 0]\n"
      "[environment]\nX = \"$(touch y)\"\n[[link]]\nname = \"fabric\"\nranks_per_node = 2\n[link.environment]\nY = \"z\"\n"));
  Launch launch;
  launch.program = "bench_codec";
  launch.link = "fabric";
  launch.ranks = 4;
  const Command command = command_for(paths, "0001", launch);
  EXPECT_EQ(command.arguments,
            (std::vector<std::string>{"srun", "--ntasks=4", "--nodes=2", "--cpus-per-task=1", "--ntasks-per-node=2", "--mpi=pmix", "--comment=a b;c",
                                      "/programs/sweep", "rank", "--gpus", "1,0", "/programs/bench_codec", "--cells",
                                      folder.path() + "/launches/0001.json"}));
  EXPECT_EQ(command.environment.at("X"), "$(touch y)");
  EXPECT_EQ(command.environment.at("Y"), "z");
  paths.machine = std::make_shared<Machine>();
  launch.link = "shm";
  EXPECT_EQ(command_for(paths, "0001", launch).arguments,
            (std::vector<std::string>{"mpirun", "--oversubscribe", "--bind-to", "none", "-n", "4", "/programs/bench_codec", "--cells",
                                      folder.path() + "/launches/0001.json"}));
}

std::vector<PlannedCell> many_cells(int count, int ranks, const std::string& program) {
  std::vector<PlannedCell> cells;
  for (int i = 0; i < count; ++i) {
    PlannedCell cell;
    cell.cell_id = program + std::to_string(ranks) + "-" + std::to_string(i);
    cell.program = program;
    cell.link = "shm";
    cell.ranks = ranks;
    cell.parameters.set("value", std::string("$(touch pwned) '\"; `x`"));
    cells.push_back(cell);
  }
  return cells;
}

RunPaths slurm_places(const TemporaryFolder& folder) {
  RunPaths paths;
  paths.out = folder / "out put";
  paths.bin = "/it's here";
  paths.machine = std::make_shared<Machine>(
      machine_of("modules = [\"a b\"]\nsetup = [\"ulimit -l unlimited\"]\n[slurm]\npartition = \"main\"\nminutes_per_job = 1\ncell_seconds = 20\narray_width = 5\n"));
  return paths;
}

TEST(Packing, FillsTasksUpToTheMinutesOfAJobAndSeparatesShapes) {
  const TemporaryFolder folder;
  std::vector<PlannedCell> cells = many_cells(7, 2, "a");
  for (const PlannedCell& cell : many_cells(2, 4, "a")) cells.push_back(cell);
  for (const PlannedCell& cell : many_cells(3, 2, "b")) cells.push_back(cell);
  cells[6].minutes = 5;  // longer than a job is meant to be
  const Submission s = draft(slurm_places(folder), cells, Estimates(cells, folder.path()));
  ASSERT_EQ(s.arrays.size(), 2u);
  EXPECT_EQ(s.arrays[0].tasks, (std::vector<std::vector<std::size_t>>{{0, 1, 2}, {3, 4, 5}, {6}, {9, 10, 11}}));
  EXPECT_EQ(s.arrays[1].tasks, (std::vector<std::vector<std::size_t>>{{7, 8}}));
  EXPECT_EQ(s.arrays[0].seconds[2], 300);
  const std::vector<PlannedCell> ten_thousand = many_cells(10'000, 2, "a");
  const Submission large = draft(slurm_places(folder), ten_thousand, Estimates(ten_thousand, folder.path()));
  ASSERT_EQ(large.arrays.size(), 4u);  // Slurm's default: 1000 tasks in an array
  EXPECT_EQ(large.arrays[3].tasks.size(), 334u);
}

TEST(JobScripts, HoldNothingOfAStudyAndQuoteEveryPath) {
  const TemporaryFolder folder;
  const std::vector<PlannedCell> cells = many_cells(7, 2, "a");
  Submission s = draft(slurm_places(folder), cells, Estimates(cells, folder.path()));
  const std::string text = job_script(s, 0);
  EXPECT_EQ(text.find("pwned"), std::string::npos);
  EXPECT_NE(text.find("#SBATCH --array=0-2%5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("module load 'a b' || exit 3\nulimit -l unlimited\nexec '/it'\\''s here/sweep' task '" + s.folder + "' 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("#SBATCH --output=\"" + s.folder + "/task-0-%a.log\"\n"), std::string::npos) << text;
  s.paths.out = "/a\n#SBATCH --partition=theirs";
  EXPECT_NE(message_of<UsageError>([&] { job_script(s, 0); }), "");
}

TEST(Submissions, ComeBackFromDiskAsTheyWere) {
  const TemporaryFolder folder;
  const std::vector<PlannedCell> cells = many_cells(4, 2, "a");
  Submission s = draft(slurm_places(folder), cells, Estimates(cells, folder.path()));
  s.paths.machine = std::make_shared<Machine>(read_machine("local-slurm", "/nowhere"));
  open_submission(s);
  write_tasks(s);
  write_submitted(s);
  const Submission back = read_submission(s.folder);
  EXPECT_EQ(back.arrays[0].tasks, s.arrays[0].tasks);
  EXPECT_EQ(back.submitted[0].name, s.submitted[0].name);
  EXPECT_EQ(back.paths.machine->launcher_options, s.paths.machine->launcher_options);
  for (std::size_t i = 0; i < cells.size(); ++i) EXPECT_EQ(back.cells[i].cell.parameters, cells[i].parameters);
  Submission other = s;
  open_submission(other);
  EXPECT_NE(other.folder, s.folder);
  EXPECT_NE(other.submitted[0].name, s.submitted[0].name);
  results::write_file(s.folder + "/tasks.json", "{\"schema\": 1, \"id\":");
  EXPECT_NE(message_of<CorruptData>([&] { read_submission(s.folder); }).find("tasks.json"), std::string::npos);
}

TEST(CellLeases, ACellHasOneOwnerAtATimeAndADeadOwnersCellsAreFree) {
  const TemporaryFolder folder;
  const std::vector<std::string> abc = {"a", "b", "c"}, cd = {"c", "d"};
  auto first = std::make_unique<CellLeases>(folder.path(), "one", "first");
  EXPECT_TRUE(first->take(abc).empty());
  CellLeases second(folder.path(), "two", "second");
  EXPECT_EQ(second.take(cd), (std::map<std::string, std::string>{{"c", "first"}}));
  EXPECT_EQ(leased_cells(folder.path()).at("d"), "second");
  EXPECT_TRUE(first->renew());
  first.reset();
  EXPECT_TRUE(second.take(abc).empty());

  // A child dies with its lease: nothing of it is left to be cleaned up by hand.
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    CellLeases third(folder.path(), "three", "third");
    third.take(std::vector<std::string>{"e"});
    if (write(ready[1], "x", 1) < 0) _exit(1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(second.take(std::vector<std::string>{"e"}).size(), 1u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(second.take(std::vector<std::string>{"e"}).empty());
  EXPECT_FALSE(std::filesystem::exists(folder / "leases/three.json"));
}

TEST(CellLeases, TouchNothingOfTheVerdictsInClaims) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "claims");
  for (const char* name : {"claims/claims.json", "claims/list.json"}) {
    const std::string path = folder.write(name, R"({"schema": 2, "claims": []})");
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  CellLeases leases(folder.path(), "run", "sweep run");
  EXPECT_TRUE(leases.take(std::vector<std::string>{"a"}).empty());
  EXPECT_TRUE(std::filesystem::exists(folder / "leases/run.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "claims/claims.json") && std::filesystem::exists(folder / "claims/list.json"));
}

}  // namespace
}  // namespace thinwire::sweep
