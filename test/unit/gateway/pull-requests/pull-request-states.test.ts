import { silentLogger } from '@conversation-operator/base/logger';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  intervalOf,
  PullRequestStates,
} from '../../../../src/gateway/pull-requests/pull-request-states.ts';
import type { PullRequestCall } from '../../../../src/gateway/pull-requests/host-access.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../src/resources/cached-conversation.ts';
import type { PullRequestRecord } from '../../../../src/resources/pull-request.ts';
import { aConversation, noon, noonMs } from '../../../support/builders.ts';
import { quietCache } from '../../../support/gateway/quiet-cache.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

it.each([
  ['at first each minute', 0, minuteMs],
  ['later a tenth of the age', 2 * hourMs, 12 * minuteMs],
  ['at most six hours', 1_000 * hourMs, 6 * hourMs],
  ['each minute where the clock was set back', -hourMs, minuteMs],
])('the interval is %s', (_what, unchangedMs, expected) => {
  expect(intervalOf(unchangedMs)).toBe(expected);
});

const aPullRequest = (
  number: number,
  state: PullRequestRecord['state'] = 'Open',
): PullRequestRecord => ({
  number,
  url: `https://git.example.com/${number}`,
  provider: 'forgejo',
  repository: 'acme/shop',
  title: 'Fix',
  head: `agent/${number}`,
  base: 'main',
  draft: false,
  state,
  stateTime: noon,
});

function setUp() {
  const clock = new VirtualClock(noonMs);
  const store = new IndexedStore<CachedConversation>({});
  const reads: string[] = [];
  const failures = new Set<number>();
  let underWay = 0;
  let most = 0;
  const refresh = async (
    { conversation }: PullRequestCall,
    { number }: Pick<PullRequestRecord, 'number'>,
  ): Promise<void> => {
    most = Math.max(most, ++underWay);
    await new Promise<void>((resolve) => clock.after(10, resolve));
    underWay -= 1;
    reads.push(`${conversation.metadata.name}/${number}`);
    if (failures.has(number)) throw new Error('away');
  };
  const states = new PullRequestStates({
    clock,
    logger: silentLogger,
    pullRequests: { refresh },
    conversations: quietCache(store),
  });
  const add = (name: string, owner: string, pullRequests: readonly PullRequestRecord[]) =>
    store.set(
      cachedConversation({
        ...aConversation({ name, spec: { owner } }),
        status: { pullRequests: [...pullRequests] },
      }),
    );
  return { clock, states, reads, failures, add, most: () => most };
}

it('reads open pull requests alone, the younger ones more often', async () => {
  const { clock, states, reads, add } = setUp();
  add('c-1', 'alice', [aPullRequest(1), aPullRequest(2, 'Merged'), aPullRequest(3, 'Closed')]);
  await clock.advance(10 * minuteMs);
  expect(new Set(reads)).toEqual(new Set(['c-1/1']));
  const young = reads.length;
  expect(young).toBeGreaterThanOrEqual(7);
  await clock.advance(24 * hourMs);
  reads.length = 0;
  await clock.advance(10 * minuteMs);
  expect(reads.length).toBeLessThanOrEqual(1);
  states.close();
  expect(clock.timers).toBe(0);
});

it('continues after an error, and reads one of an owner at a time', async () => {
  const { clock, states, reads, failures, add, most } = setUp();
  for (const owner of ['alice', 'bob'])
    add(`c-${owner}`, owner, [aPullRequest(1), aPullRequest(2), aPullRequest(3)]);
  failures.add(1);
  await clock.advance(4 * minuteMs);
  expect(reads.filter((read) => read === 'c-alice/1').length).toBeGreaterThan(1);
  expect(most()).toBe(2);
  states.close();
});
