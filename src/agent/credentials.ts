/** API keys of models. A SandboxTemplate contains only the names of the keys. */
export interface AgentCredentials {
  /** The owner's current key, or else the shared key; undefined without both. Never rejects. */
  of(owner: string, name: string): Promise<string | undefined>;
}

export const noAgentCredentials: AgentCredentials = { of: () => Promise.resolve(undefined) };
