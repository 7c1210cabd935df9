import { z } from 'zod';
import { textOf, type AgentEvent } from '../agent/event-kinds.ts';
import { CommandError } from '../commands/terminal.ts';
import { conversationIdOf } from '../resources/ids.ts';
import { entriesOf, type Entry } from '../sentences/entries.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { interruption, waited } from './follow.ts';
import { named } from './names.ts';
import { readScene } from './scene.ts';
import { readService, serviceOf, type Service } from './service.ts';
import { escaped, print, printValue, say, UsageError } from './terminal.ts';
import { explain, timelineLine } from './why.ts';

export interface EventsOptions extends PluginOptions {
  readonly follow?: boolean;
}

const pageSchema = z.object({
  items: z.array(z.record(z.string(), z.unknown())),
  next_page_id: z.string().nullable(),
});
const pollMs = 2_000;

/** All events of a conversation, oldest first; with `isFollowing` also later ones, without an end. */
async function* eventsOf(
  service: Service,
  id: string,
  { isFollowing, signal }: { readonly isFollowing: boolean; readonly signal: AbortSignal },
): AsyncGenerator<AgentEvent, void, undefined> {
  let pageId: string | undefined;
  let seen = new Set<string>();
  let isAway = false;
  for (;;) {
    const query = new URLSearchParams({ sort_order: 'TIMESTAMP', limit: '100' });
    if (pageId !== undefined) query.set('page_id', pageId);
    let page;
    try {
      const json = await readService(
        service,
        `/api/v1/conversation/${id}/events/search?${query.toString()}`,
        signal,
      );
      page = pageSchema.parse(json);
      isAway = false;
    } catch (error) {
      if (signal.aborted) return;
      // While somebody follows, a gateway restarts, and a sandbox is paused.
      if (!isFollowing || !(error instanceof CommandError)) throw error;
      if (!isAway) say(`${error.message}. Trying again.`);
      isAway = true;
    }
    for (const event of page?.items ?? []) {
      const eventId = textOf(event['id']);
      if (seen.has(eventId)) continue;
      if (eventId !== '') seen.add(eventId);
      yield event;
    }
    if (page !== undefined && page.next_page_id !== null) {
      pageId = page.next_page_id;
      seen = new Set();
    } else if (!isFollowing || !(await waited(pollMs, signal))) return;
  }
}

const indented = (text: string): string =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => `    ${line}`)
    .join('\n');

const headOf = (entry: Entry): string => {
  switch (entry.kind) {
    case 'message':
      return `${entry.source === 'user' ? 'You' : 'Agent'}:`;
    case 'tool':
      return `${entry.tool}, ${entry.state}${entry.summary === '' ? '' : `: ${entry.summary}`}`;
    case 'notice':
      return `${entry.isProblem ? '! ' : ''}${entry.text}`;
    case 'folded':
      return `${entry.name}:`;
  }
};

const bodiesOf = (entry: Entry): readonly string[] => {
  switch (entry.kind) {
    case 'message':
      return [
        entry.text,
        ...(entry.images.length === 0 ? [] : [`(images: ${entry.images.length})`]),
      ];
    case 'tool':
      return [entry.output === '' ? entry.input : entry.output].filter(
        (text) => text !== entry.summary,
      );
    case 'notice':
      return [];
    case 'folded':
      return [entry.text];
  }
};

/** An event as the page shows it, as text. Empty for an event that the page hides. Pure. */
export const eventLines = (event: AgentEvent): readonly string[] =>
  entriesOf([event]).flatMap((entry) => [
    `${entry.time.slice(11, 19)} ${headOf(entry)}`,
    ...bodiesOf(entry)
      .filter((text) => text.trim() !== '')
      .map(indented),
  ]);

/** The agent's events by the gateway, or without a login what the cluster knows. */
export const events = (text: string, options: EventsOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace, context }) => {
    const { output } = options;
    if (output === 'name' || output === 'wide')
      throw new UsageError(`-o ${output}: events have json and yaml`);
    const service = await serviceOf(options.server, context);
    if (service === undefined) {
      say(
        "The agent's events are at the gateway, and there is neither a login (kubectl conversations login --server URL) nor CONVERSATION_OPERATOR_KEY with --server. This is what the cluster knows:",
      );
      const { timeline, eventsRefused } = await explain(client, namespace, text);
      if (eventsRefused !== undefined) say(`Events are not shown: you may not ${eventsRefused}.`);
      if (!printValue(output, timeline)) for (const entry of timeline) print(timelineLine(entry));
      if (options.follow === true)
        throw new CommandError('Only the gateway has events to follow: log in');
      return;
    }
    const conversation = named(await readScene(client, namespace), text);
    const signal = interruption();
    const following = { isFollowing: options.follow === true, signal };
    for await (const event of eventsOf(service, conversationIdOf(conversation), following)) {
      // One event is one line of JSON, or one document of YAML.
      if (output === 'json') print(escaped(JSON.stringify(event)));
      else if (output === 'yaml') {
        print('---');
        printValue(output, event);
      } else for (const line of eventLines(event)) print(line);
    }
  });
