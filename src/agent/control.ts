import type { AgentEndpoint } from './agent.ts';
import { OpenHandsApi, pathOf } from './openhands-api.ts';

/** Calls of the gateway to an agent for a person. Throws `AgentError`. */
export class AgentControl {
  readonly #api: OpenHandsApi;

  constructor({ timeoutMs = 30_000, connectTimeoutMs = 3000 } = {}) {
    this.#api = new OpenHandsApi({ timeoutMs, connectTimeoutMs });
  }

  /** Kills the running tool call and pauses the run; nothing happens when nothing runs. */
  interrupt(endpoint: AgentEndpoint, id: string, signal: AbortSignal): Promise<void> {
    return this.#api.post(endpoint, { signal }, `${pathOf(id)}/interrupt`);
  }

  close(): Promise<void> {
    return this.#api.close();
  }
}
