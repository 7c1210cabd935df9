/** API keys of models, by the names that a SandboxTemplate uses. */
export interface AgentCredentials {
  /** The owner's current key, or else the shared key; undefined without both. Never rejects. */
  of(owner: string, name: string): Promise<string | undefined>;
}

export const noAgentCredentials: AgentCredentials = { of: () => Promise.resolve(undefined) };
