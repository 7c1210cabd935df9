import { formatAmount, parseAmount, sumOf } from '../budget/money.ts';
import type { TokenUsage } from './usage.ts';

/** Sums over calls. `cost` is a decimal number of US dollars. */
export interface UsageCounters {
  readonly calls: number;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly cost: string;
}
export interface UsageRow extends UsageCounters {
  readonly day: string;
  readonly model: string;
  readonly template: string;
}
export interface ModelRow extends UsageCounters {
  readonly model: string;
}
export interface ConversationRow extends UsageCounters {
  readonly name: string;
  readonly lastDay: string;
  readonly models: readonly ModelRow[];
}
/** The sums in the status of a UsageRecord. */
export interface UsageSums {
  readonly totals?: UsageCounters | undefined;
  readonly rows?: readonly UsageRow[] | undefined;
  readonly conversations?: readonly ConversationRow[] | undefined;
}

/** Calls of one conversation on one day with one model. */
export interface UsageDelta {
  /** YYYY-MM-DD in UTC. */
  readonly day: string;
  readonly model: string;
  readonly template: string;
  readonly conversation: string;
  readonly calls: number;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  /** In 1e-9 USD. */
  readonly nanos: number;
}

export const maxRows = 2000;
/** Rows from here on are sums of the models of a template and day, so that those find room. */
const maxNamedRows = 1900;
/** Rows from here on are sums of a day. */
const maxTemplateRows = 1960;
export const maxConversations = 1000;
export const maxModelsOfConversation = 20;
/** Model, template or conversation of which the sums have no place of their own. */
export const other = 'other';
/**
 * Maximum bytes of the sums as JSON. The API server refuses objects of 1.5 MiB, of which budgets and
 * the managed fields take their part.
 */
export const maxSumsBytes = 600_000;
const maxNameLength = 256;

/** What one call adds. A model whose name is longer than a record takes is in `other`. */
export function deltaOf(
  call: Pick<UsageDelta, 'day' | 'model' | 'template' | 'conversation' | 'nanos'>,
  { inputTokens, cachedInputTokens, outputTokens }: TokenUsage,
): UsageDelta {
  const { day, template, conversation, nanos } = call;
  const isName = call.model !== '' && call.model.length <= maxNameLength;
  const model = isName ? call.model : other;
  return {
    ...{ day, model, template, conversation, calls: 1 },
    ...{ inputTokens, cachedInputTokens, outputTokens, nanos },
  };
}

/** The same sums in as few deltas as possible: what a replica collects between two writes. */
export function mergedDeltas(deltas: readonly UsageDelta[]): readonly UsageDelta[] {
  const merged = new Map<string, UsageDelta>();
  for (const delta of deltas) {
    const { day, model, template, conversation } = delta;
    const key = JSON.stringify([day, model, template, conversation]);
    const known = merged.get(key);
    merged.set(
      key,
      known === undefined
        ? delta
        : {
            ...delta,
            calls: sumOf(known.calls, delta.calls),
            inputTokens: sumOf(known.inputTokens, delta.inputTokens),
            cachedInputTokens: sumOf(known.cachedInputTokens, delta.cachedInputTokens),
            outputTokens: sumOf(known.outputTokens, delta.outputTokens),
            nanos: sumOf(known.nanos, delta.nanos),
          },
    );
  }
  return [...merged.values()];
}

const none: UsageCounters = {
  calls: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  cost: '0',
};

/** The sum of both. Sums stay at `maxAmount`, so that no field ever falls. */
export const addedCounters = (first: UsageCounters, second: UsageCounters): UsageCounters => ({
  calls: sumOf(first.calls, second.calls),
  inputTokens: sumOf(first.inputTokens, second.inputTokens),
  cachedInputTokens: sumOf(first.cachedInputTokens, second.cachedInputTokens),
  outputTokens: sumOf(first.outputTokens, second.outputTokens),
  cost: formatAmount(sumOf(parseAmount(first.cost, 'USD'), parseAmount(second.cost, 'USD')), 'USD'),
});

export const totalOf = (all: readonly UsageCounters[]): UsageCounters =>
  all.reduce<UsageCounters>(addedCounters, none);

const countersOf = ({ nanos, ...delta }: UsageDelta): UsageCounters => ({
  calls: delta.calls,
  inputTokens: delta.inputTokens,
  cachedInputTokens: delta.cachedInputTokens,
  outputTokens: delta.outputTokens,
  cost: formatAmount(nanos, 'USD'),
});

type RowKey = Pick<UsageRow, 'day' | 'model' | 'template'>;
const textOf = ({ day, model, template }: RowKey): string => JSON.stringify([day, model, template]);

/** The row to which calls are added: their own, or the narrowest sum for which there is room. */
function placeOf(rows: ReadonlyMap<string, UsageRow>, { day, model, template }: RowKey): RowKey {
  const own = { day, model, template };
  if (rows.has(textOf(own)) || rows.size < maxNamedRows) return own;
  const ofTemplate = { day, model: other, template };
  if (rows.has(textOf(ofTemplate)) || rows.size < maxTemplateRows) return ofTemplate;
  const ofDay = { day, model: other, template: other };
  if (rows.has(textOf(ofDay)) || rows.size < maxRows) return ofDay;
  // A record of one conversation may have any number of days.
  const isSum = (row: UsageRow) => row.model === other && row.template === other;
  return [...rows.values()].findLast(isSum) ?? [...rows.values()].at(-1) ?? ofDay;
}

function addToRow(rows: Map<string, UsageRow>, place: RowKey, counters: UsageCounters): void {
  const key = textOf(place);
  const { day, model, template } = place;
  const sum = addedCounters(rows.get(key) ?? none, counters);
  rows.set(key, { day, model, template, ...sum });
}

function addToModels(models: readonly ModelRow[], model: string, counters: UsageCounters) {
  const isThere = (name: string) => models.some((row) => row.model === name);
  // The last place is that of `other`.
  const hasRoom = models.length < maxModelsOfConversation - (isThere(other) ? 0 : 1);
  const place = isThere(model) || hasRoom ? model : other;
  return isThere(place)
    ? models.map((row) =>
        row.model === place ? { model: place, ...addedCounters(row, counters) } : row,
      )
    : [...models, { model: place, ...counters }];
}

const laterOf = (first: string, second: string): string => (first > second ? first : second);

function addToConversation(
  conversations: Map<string, ConversationRow>,
  name: string,
  lastDay: string,
  models: readonly ModelRow[],
): void {
  const known = conversations.get(name);
  const sum = addedCounters(known ?? none, totalOf(models));
  conversations.set(name, {
    name,
    ...sum,
    lastDay: laterOf(known?.lastDay ?? lastDay, lastDay),
    models: models.reduce<readonly ModelRow[]>(
      (sums, { model, ...counters }) => addToModels(sums, model, counters),
      known?.models ?? [],
    ),
  });
}

/** Adds the conversations that were used longest ago to the one that stands for them. */
function foldConversations(conversations: Map<string, ConversationRow>, count: number): void {
  const oldest = [...conversations.values()]
    .filter(({ name }) => name !== other)
    .sort((a, b) =>
      a.lastDay === b.lastDay ? (a.name < b.name ? -1 : 1) : a.lastDay < b.lastDay ? -1 : 1,
    )
    .slice(0, count);
  for (const { name, lastDay, models } of oldest) {
    conversations.delete(name);
    addToConversation(conversations, other, lastDay, models);
  }
}

/** Adds the rows of the earliest day that has several to the one of that day. Says whether it did. */
function foldRows(rows: Map<string, UsageRow>): boolean {
  const days = Map.groupBy(rows.values(), ({ day }) => day);
  const [earliest] = [...days]
    .filter(([, { length }]) => length > 1)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  if (earliest === undefined) return false;
  const [day, ofDay] = earliest;
  for (const row of ofDay) rows.delete(textOf(row));
  addToRow(rows, { day, model: other, template: other }, totalOf(ofDay));
  return true;
}

/**
 * The sums with these deltas. No field of what stays falls, and nothing is lost: what has no room is
 * added to `other`. The lists stay within their lengths, and the whole within `maxSumsBytes`.
 */
export function withDeltas(sums: UsageSums, deltas: readonly UsageDelta[]): UsageSums {
  const rows = new Map((sums.rows ?? []).map((row) => [textOf(row), row]));
  const conversations = new Map((sums.conversations ?? []).map((row) => [row.name, row]));
  for (const delta of mergedDeltas(deltas)) {
    const counters = countersOf(delta);
    addToRow(rows, placeOf(rows, delta), counters);
    addToConversation(conversations, delta.conversation, delta.day, [
      { model: delta.model, ...counters },
    ]);
  }
  // One place is for `other`.
  const most = maxConversations - (conversations.has(other) ? 0 : 1);
  if (conversations.size > maxConversations)
    foldConversations(conversations, conversations.size - most);
  const result = (): UsageSums => ({
    totals: addedCounters(sums.totals ?? none, totalOf(deltas.map(countersOf))),
    rows: [...rows.values()],
    conversations: [...conversations.values()],
  });
  while (Buffer.byteLength(JSON.stringify(result())) > maxSumsBytes) {
    if (conversations.size > 2) foldConversations(conversations, Math.ceil(conversations.size / 8));
    else if (!foldRows(rows)) break;
  }
  return result();
}
