import { mkdirSync } from 'node:fs';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import type { DataFolder } from '../data-folder.ts';

/** Image name of the OpenHands agent-server on the local cluster. */
export const openHandsImage = 'conversation-operator/openhands-agent';

/**
 * The program listens on its pod's address, as in any container. Arguments of the pod's spec come
 * last and override these.
 */
const script = 'exec "$0" -m openhands.agent_server --host "$HOST" --port 8000 "$@"';

/**
 * A socket's path has 107 bytes at most, of which tmux and the agent need these:
 * /tmux-4294967295/openhands-<32 hex digits>.
 */
const longestTmuxFolder = 107 - 16 - 43;

/**
 * Folder of the sockets of all processes, whose names differ. A process whose path would be too
 * long creates a folder in /tmp.
 */
function tmuxEnvironment(folder: DataFolder): Readonly<Record<string, string>> {
  const path = folder.file('tmux');
  if (Buffer.byteLength(path) > longestTmuxFolder) return {};
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return { TMUX_TMPDIR: path };
}

/** The agent-server of a virtual environment as a program of the embedded node. */
export const openHandsProgram = (python: string, folder: DataFolder): ImageProgram => ({
  command: ['/bin/sh', '-c', script, python],
  env: {
    ...tmuxEnvironment(folder),
    // Else it fetches a list of prices at each start.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    OPENHANDS_SUPPRESS_BANNER: '1',
    // Else its lines are broken at 80 columns.
    LOG_JSON: 'true',
  },
});
