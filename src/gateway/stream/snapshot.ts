import type { OwnerHub } from './owner-hub.ts';
import type { SubjectKind } from './own-records.ts';

interface SnapshotPart {
  readonly json: string;
  readonly isLast: boolean;
}

/** Maximum length of the records of a part before its last one. */
const maxPartLength = 65_536;

/**
 * The state of an owner in parts. Each step makes one part, of a bounded number of records, so that
 * the caller decides when the next one is made. An object that is created meanwhile is in no part:
 * its event follows.
 */
export function* snapshotParts(
  hub: Pick<OwnerHub, 'subjects' | 'show' | 'showQuota' | 'recordsPerTurn'>,
): Generator<SnapshotPart, void, undefined> {
  let part = new Part();
  for (const subject of hub.subjects()) {
    const json = hub.show(subject);
    if (json !== undefined) part.add(subject.kind, json);
    if (part.size < hub.recordsPerTurn && part.length < maxPartLength) continue;
    yield { json: part.text('null', false), isLast: false };
    part = new Part();
  }
  yield { json: part.text(hub.showQuota(), true), isLast: true };
}

class Part {
  readonly #records: Readonly<Record<SubjectKind, string[]>> = {
    conversation: [],
    start_task: [],
    sandbox: [],
  };
  size = 0;
  length = 0;

  add(kind: SubjectKind, json: string): void {
    this.#records[kind].push(json);
    this.size += 1;
    this.length += json.length;
  }

  text(quotaJson: string, isLast: boolean): string {
    const { conversation, start_task, sandbox } = this.#records;
    return `{"conversations":[${conversation.join()}],"start_tasks":[${start_task.join()}],"sandboxes":[${sandbox.join()}],"quota":${quotaJson},"last":${isLast}}`;
  }
}
