/** The API keys of models, by the names that templates call them. */
export interface AgentCredentials {
  /**
   * An owner's own key of that name, else everybody's, as it is now: a secret. Undefined: there is
   * none that can be used. Never rejects.
   */
  of(owner: string, name: string): Promise<string | undefined>;
}

export const noAgentCredentials: AgentCredentials = { of: () => Promise.resolve(undefined) };
