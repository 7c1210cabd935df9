import type { AgentEvent } from './agent-event.ts';

/** A part of the log of an agent. */
export interface SourcePage {
  /** In the order of the log, or in reverse order. */
  readonly events: readonly AgentEvent[];
  /** Number of events that the page has left out, because they have no valid id. */
  readonly invalid: number;
  /** Id of the first event of the next page; undefined: this page is the last one. */
  readonly next: string | undefined;
}

/**
 * The log of an agent for one conversation. The answers of an agent are its own claims: ids may
 * repeat, and pages may have no end.
 */
export interface EventSource {
  /**
   * The page that begins with this event, or with the first event of the log, in reverse order with
   * the last one. An agent that does not know the id answers with the first page.
   */
  page(
    from: string | undefined,
    options: { readonly descending: boolean; readonly signal: AbortSignal },
  ): Promise<SourcePage>;
}
