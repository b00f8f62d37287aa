// SIGUSR1 means: stop at the next good place, and leave behind what it takes to go on. Slurm sends it ahead of a time limit.
#pragma once

namespace thinwire {

/// From here on SIGUSR1 is noted instead of ending the process. Harmless to repeat.
void watch_for_stop_request();

/// Whether SIGUSR1 has come to this process. Ranks may differ for a moment: let all agree before acting on it.
bool stop_requested();

/// Forgets it (tests).
void clear_stop_request();

}  // namespace thinwire
