import { StoreError } from '@conversation-operator/object-store/object-store';
import { sleep } from '@conversation-operator/base/clock';
import { ArchiveError } from '../../../src/archive/layout.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import { Machine } from '../machine.ts';
import type { Random } from '../random.ts';
import type { Findings } from './findings.ts';
import type { IoScheduler } from './io-scheduler.ts';
import type { Member, World } from './world.ts';

export interface HistoryWalkOptions {
  readonly world: World;
  readonly member: Member;
  readonly random: Random;
  readonly scheduler: IoScheduler;
  readonly findings: Findings;
}

/** Maximum attempts for a page while the store fails. */
const maxAttempts = 40;

/**
 * Reads a whole archive page by page, while it grows. A head that is gone is replaced by that of a
 * fresh status, as the gateway does. A walk in an archive that expires meanwhile proves nothing.
 */
export async function walkHistory(options: HistoryWalkOptions): Promise<void> {
  const { world, member, random, scheduler, findings } = options;
  const { checks, store, codec } = world;
  const namespace = 'default';
  const { uid, agent } = member;
  const before = checks.idsOf(uid);
  const expiries = checks.expiriesOf(uid);
  const machine = new Machine(`reader of ${uid}`, scheduler);
  const reader = createHistoryReader({ store: store.of(machine), codec });
  const descending = random.chance(0.5);
  const ids: string[] = [];
  let head = await world.headOf(member);
  if (head === undefined || agent.lies) return;
  let pageId: string | undefined;
  let attempts = 0;
  let goneHead: string | undefined;
  do {
    const limit = random.whole(1, 40);
    try {
      const page = await reader.search({ namespace, uid, head }, { descending, pageId, limit });
      ids.push(...page.events.map(({ id }) => id));
      pageId = page.nextPageId ?? undefined;
      if (pageId === undefined) break;
      await sleep(machine.clock, random.between(1, 3_000));
      // The next process of the gateway may have a newer status, or the same one.
      if (random.chance(0.5)) head = await world.headOf(member);
      goneHead = undefined;
    } catch (error) {
      if (error instanceof ArchiveError && error.code === 'gone') {
        const fresh = await world.headOf(member);
        if (fresh === undefined || checks.expiriesOf(uid) !== expiries) return;
        if (fresh === goneHead)
          findings.report('the objects of a fresh head exist and are whole', `${uid}: ${fresh}`);
        goneHead = head = fresh;
      } else if (!(error instanceof StoreError)) {
        findings.report('paging gives each event once', `${uid}: ${String(error)}`);
        return;
      }
      if (++attempts > maxAttempts) return;
      await sleep(machine.clock, random.between(100, 10_000));
    }
  } while (head !== undefined);
  if (head === undefined || checks.isDeleted(uid) || checks.expiriesOf(uid) !== expiries) return;
  const read = descending ? ids.toReversed() : ids;
  const now = checks.idsOf(uid);
  const wrong = read.findIndex((id, index) => now[index] !== id);
  if (wrong !== -1 || read.length < before.length)
    findings.report(
      'paging gives each event once',
      `${uid} ${descending ? 'backwards' : 'forwards'}: ${read.length} of ${before.length} to ${now.length}, wrong at ${wrong}`,
    );
}
