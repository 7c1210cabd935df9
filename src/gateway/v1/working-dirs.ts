import type { WorkspaceFiles } from '../../agent/workspace-files.ts';
import type { Agent } from './agent-reading.ts';

/** Maximum folders that are remembered. */
const maxKnown = 1000;

/**
 * Folders of conversations, as their agents have them. A pod has the path of its template, which
 * the record shows; a sandbox that is a process of this machine has another one. The folder of a
 * conversation does not change, so that an agent is asked once.
 */
export class WorkingDirs {
  readonly #files: Pick<WorkspaceFiles, 'workingDir'>;
  readonly #known = new Map<string, string>();

  constructor(files: Pick<WorkspaceFiles, 'workingDir'>) {
    this.#files = files;
  }

  /** The path at the agent, of a path in the folder that the record shows; others are the same. */
  async pathAt(
    agent: Pick<Agent, 'container' | 'endpoint' | 'id' | 'workingDir'>,
    path: string,
    signal: AbortSignal,
  ): Promise<string> {
    const { workingDir } = agent;
    if (workingDir === undefined || (path !== workingDir && !path.startsWith(`${workingDir}/`)))
      return path;
    const own = await this.#of(agent, signal);
    return `${own.replace(/\/+$/, '')}${path.slice(workingDir.length)}`;
  }

  async #of(
    { container, endpoint, id }: Pick<Agent, 'container' | 'endpoint' | 'id'>,
    signal: AbortSignal,
  ): Promise<string> {
    const key = `${container} ${id}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const found = await this.#files.workingDir(endpoint, id, { signal });
    const [oldest] = this.#known.keys();
    if (this.#known.size >= maxKnown && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(key, found);
    return found;
  }
}
