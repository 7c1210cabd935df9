import type { SourceMutation } from '../../mutants/mutated-source.ts';
import type { Rule } from '../findings.ts';

/** A plausible mistake in one place of the product, and the promises of which one breaks. */
export interface ArchiveMutant extends SourceMutation {
  readonly rules: readonly Rule[];
  /** Maximum number of seeds until one shows the mistake; 80 by default. */
  readonly seeds?: number;
}

const archiver = 'src/controllers/archive/archiver.ts';
const seal = 'src/controllers/archive/seal.ts';
const reconcile = 'src/controllers/archive/reconcile.ts';
const extend = 'src/archive/extend.ts';
const rare = 300;

/** Each mistake as a sentence. */
export const archiveMutants: Readonly<Record<string, ArchiveMutant>> = {
  'a seal is complete before the last page': {
    file: extend,
    from: "if (growth.added >= maxEvents) return ended('more');",
    to: "return ended('end');",
    rules: ['a complete seal has everything'],
  },
  'a seal is complete after a failure': {
    file: seal,
    from: "if (kind === 'end') return 'complete';",
    to: "if (kind === 'end' || kind === 'failed') return 'complete';",
    rules: ['a complete seal has everything'],
  },
  'the status names a head before its object is stored': {
    file: extend,
    from: "await store.put(keyOf(this.#address, 'h', name), body, { signal });\nconst bytes",
    to: "store.put(keyOf(this.#address, 'h', name), body, { signal }).catch(() => undefined);\nconst bytes",
    rules: ['the objects of a fresh head exist and are whole'],
  },
  'a head names a segment before its object is stored': {
    file: extend,
    from: "await store.put(keyOf(this.#address, 's', segmentNameOf(segment)), body, { signal });",
    to: "store.put(keyOf(this.#address, 's', segmentNameOf(segment)), body, { signal }).catch(() => undefined);",
    rules: ['the objects of a fresh head exist and are whole'],
    seeds: rare,
  },
  'the log of a restored volume is taken from its beginning': {
    file: extend,
    from: "const from = await unknownFrom(archive, source, signal); if (from === undefined) return; page = await read(from); if (!isNamed(page, from)) { yield 'changed'; return; }",
    to: '',
    rules: [
      'a complete seal has everything',
      'the archive has events of the agent, in order and once',
      'a crash loses the last seconds alone',
    ],
  },
  'a restored volume has nothing new': {
    file: extend,
    from: 'if (from === undefined) return; page = await read(from);',
    to: 'return void from;',
    rules: ['a complete seal has everything', 'a crash loses the last seconds alone'],
  },
  'an id is archived as often as the agent repeats it': {
    file: extend,
    from: 'if (this.#ids.has(event.id) || this.#builder.has(event.id)) continue;',
    to: '',
    rules: ['the archive has events of the agent, in order and once'],
    seeds: rare,
  },
  'the first event of a page that is archived is archived again': {
    file: extend,
    from: 'page = { ...page, events: page.events.slice(1) };',
    to: 'page = { ...page, events: page.events.map((event, index) => index === 0 ? { ...event, id: `${event.id}+` } : event) };',
    rules: ['the archive has events of the agent, in order and once'],
  },
  'of two writers the last one wins': {
    file: 'src/controllers/archive/archive-status.ts',
    from: 'if (!isSameArchive(status.archive, known.status?.archive)) return undefined;',
    to: '',
    rules: [
      'archived events stay where they are',
      'the objects of a fresh head exist and are whole',
      'no object of a current head is deleted',
    ],
    seeds: rare,
  },
  'a head is deleted before its successor is stored': {
    file: archiver,
    from: 'const stored = await this.record(',
    to: 'if (head !== undefined && extension.head !== undefined) await this.#deleteHead(conversation, head, signal); const stored = await this.record(',
    rules: ['a crash loses the last seconds alone', 'no object of a current head is deleted'],
  },
  'a pause deletes the current head': {
    file: seal,
    from: 'name !== current && (positionOf(name)',
    to: '(positionOf(name)',
    rules: ['no object of a current head is deleted'],
  },
  'a pause leaves replaced heads': {
    file: seal,
    from: 'if (old.length > 0) await store.delete(old, { signal });',
    to: 'void old;',
    rules: ['replaced heads are deleted'],
  },
  'an interrupted expiry leaves its objects': {
    file: reconcile,
    from: 'return expiredTime === undefined ? undefined : this.#removeExpired(conversation, signal);',
    to: 'return undefined;',
    rules: ['nothing of an expired archive remains'],
    seeds: rare,
  },
  'an archive expires by a clock that was wrong for a moment': {
    file: reconcile,
    from: 'const waitMs = this.#expired.deletionWaitMs(uid, lastMs);',
    to: 'const waitMs = this.#expired.deletionWaitMs(uid, lastMs, 0);',
    rules: ['no archive expires before its time'],
  },
  'the sweep deletes nothing': {
    file: 'src/controllers/archive/sweep.ts',
    from: 'if (this.#orphans.lastsMs(name, origin) >= orphanedForMs) ripe.push(uid);',
    to: 'this.#orphans.lastsMs(name, origin);',
    rules: ['nothing of a deleted conversation remains'],
  },
  'the sweep takes each archive for its own': {
    file: 'src/archive/installation.ts',
    from: "return here.keys.knows(writer.keyId) && writer.namespaceUid === here.namespaceUid ? 'own' : 'foreign';",
    to: "return 'own';",
    rules: ['nothing of another installation is touched'],
  },
  'the sweep takes each archive under its master key for its own': {
    file: 'src/archive/installation.ts',
    from: ' && writer.namespaceUid === here.namespaceUid',
    to: '',
    rules: ['nothing of another installation is touched'],
  },
  'a pause waits for the archive without its bound': {
    file: seal,
    from: 'isStoreFailing() ? Math.min(failingStoreMs, maxMs) : maxMs;',
    to: '600_000;',
    rules: ['a seal ends in time'],
  },
  'a pause waits for the deletion of a replaced head': {
    file: archiver,
    from: "await this.#options.archive.store.delete([keyOf({ namespace, uid }, 'h', head)], { signal });",
    to: "await this.#options.archive.store.delete([keyOf({ namespace, uid }, 'h', head)]);",
    rules: ['a seal ends in time'],
    seeds: rare,
  },
  'no secret is hidden': {
    file: 'src/archive/agent-source.ts',
    from: 'return pageOf(hide(text), limit);',
    to: 'return pageOf(text, limit);',
    rules: ['no archive contains a secret'],
  },
  'the limit of an archive is ignored': {
    file: archiver,
    from: 'maxBytes: Math.min(maxBytes, ownerBytes),',
    to: 'maxBytes: Infinity,',
    rules: ['an archive stays within its limit'],
  },
  'a full archive takes one more page at each step': {
    file: extend,
    from: "if (before >= maxBytes || growth.reaches(maxBytes)) return ended('limit');",
    to: '',
    rules: ['an archive stays within its limit'],
  },
  'the log is read once a minute': {
    file: 'src/controllers/archive/reconcile.ts',
    from: 'export const extendIntervalMs = 28_000;',
    to: 'export const extendIntervalMs = 58_000;',
    rules: ['a crash loses the last seconds alone'],
  },
  'a failed write of the status waits for the next read': {
    file: reconcile,
    from: 'this.#schedule.retry(uid); if (!bounded.signal.aborted || signal.aborted) throw error;',
    to: 'if (!bounded.signal.aborted || signal.aborted) throw error; this.#schedule.retry(uid);',
    rules: ['a crash loses the last seconds alone'],
    seeds: rare,
  },
  'a page begins behind the event that its id names': {
    file: 'src/archive/reader.ts',
    from: 'if (position < end) return position;',
    to: 'if (position < end) return descending ? position - 1 : position + 1;',
    rules: ['paging gives each event once'],
  },
};
