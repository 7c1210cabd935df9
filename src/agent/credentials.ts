/** API keys of models, by the names that templates use. */
export interface AgentCredentials {
  /** Current key (a secret) of the owner, else the shared one; undefined: none. Never rejects. */
  of(owner: string, name: string): Promise<string | undefined>;
}

export const noAgentCredentials: AgentCredentials = { of: () => Promise.resolve(undefined) };
