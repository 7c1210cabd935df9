import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { Entry } from '../key-list.ts';
import type { Row } from '../row.ts';
import { serviceTime } from '../times.ts';
import type { IssuedShareRecord, ShareRecord } from '../wire.ts';
import { AskingButton } from '../components/asking-button.tsx';
import { RetryProblem } from '../components/loading.tsx';
import { ShownOnce } from '../components/shown-once.tsx';
import { Ago, Until } from '../components/tables.tsx';

type SubjectKind = ShareRecord['subject']['kind'];

const subjects = {
  link: { choice: 'Anyone who has the link' },
  user: { choice: 'One person', label: 'Owner, as “Settings” of that person shows it' },
  group: { choice: 'A group', label: 'Group, as PROVIDER:VALUE' },
} as const satisfies Readonly<Record<SubjectKind, { choice: string; label?: string }>>;
const isSubject = (text: string): text is SubjectKind => Object.hasOwn(subjects, text);

const nameOf = ({ kind, name }: ShareRecord['subject']): string =>
  kind === 'link' ? subjects.link.choice : `${kind === 'user' ? 'Person' : 'Group'} ${name ?? ''}`;

const hourMs = 60 * 60 * 1000;
const ends = {
  'In 1 hour': hourMs,
  'In 1 day': 24 * hourMs,
  'In 7 days': 7 * 24 * hourMs,
  'On a date…': undefined,
  Never: null,
} as const;
type End = keyof typeof ends;
const isEnd = (text: string): text is End => Object.hasOwn(ends, text);

/** The shares of a conversation, and the one that was created last, with its URL. */
class ShareList {
  readonly rows = signal<readonly Entry<ShareRecord>[] | undefined>(undefined);
  readonly problem = signal<string | undefined>(undefined);
  readonly made = signal<IssuedShareRecord | undefined>(undefined);
  readonly #path: string;

  constructor(conversationId: string) {
    this.#path = `/api/v1/app-conversations/${conversationId}/shares`;
  }

  read = async (): Promise<void> => {
    this.problem.value = undefined;
    try {
      const records = await api.get<readonly ShareRecord[]>(this.#path, {});
      this.rows.value = records.map((record) => new Entry(record));
    } catch (error) {
      this.problem.value = messageOf(error);
    }
  };

  /** Rejects with an ApiError. A response that is lost leaves a share that the list shows. */
  make = async (wish: object): Promise<void> => {
    this.made.value = undefined;
    try {
      this.made.value = await api.post<IssuedShareRecord>(this.#path, wish);
    } finally {
      void this.read();
    }
  };

  revoke = async (row: Entry<ShareRecord>): Promise<void> => {
    const label = 'Revoking';
    row.isAsking.value = false;
    row.action.value = { label };
    try {
      await api.delete(`${this.#path}/${encodeURIComponent(row.record.id)}`);
    } catch (error) {
      const retry = () => void this.revoke(row);
      row.action.value = { label, problem: messageOf(error), retry };
      return;
    }
    if (this.made.peek()?.id === row.record.id) this.made.value = undefined;
    this.rows.value = this.rows.peek()?.filter((other) => other !== row);
  };
}

const Readers = ({ list }: { readonly list: ShareList }) => (
  <section aria-labelledby="who-may-read">
    <h3 id="who-may-read">Who may read</h3>
    {list.problem.value !== undefined && (
      <RetryProblem text={list.problem.value} onRetry={() => void list.read()} />
    )}
    {list.rows.value === undefined && list.problem.value === undefined && (
      <p class="quiet-text">Reading who may read…</p>
    )}
    {list.rows.value?.length === 0 && <p class="quiet-text">Nobody but you.</p>}
    <ul class="settings-list">
      {list.rows.value?.map((row) => (
        <li key={row.record.id}>
          <span>{nameOf(row.record.subject)}</span>
          <span class="quiet-text">
            created <Ago time={row.record.created_at} /> · ends{' '}
            <Until time={row.record.expires_at} />
          </span>
          <AskingButton
            verb="Revoke"
            subject={nameOf(row.record.subject)}
            question="Revoke? The link then opens nothing."
            action={row.action}
            isAsking={row.isAsking}
            onConfirm={() => void list.revoke(row)}
          />
        </li>
      ))}
    </ul>
  </section>
);

function ShareForm({ list }: { readonly list: ShareList }) {
  const kind = useSignal<SubjectKind>('link');
  const name = useSignal('');
  const end = useSignal<End>('In 7 days');
  const date = useSignal('');
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const send = async () => {
    if (isSending.peek()) return;
    isSending.value = true;
    problem.value = undefined;
    const lasts = ends[end.peek()];
    const endMs = lasts === undefined ? Date.parse(date.peek()) : serviceTime() + (lasts ?? 0);
    const subject = kind.peek() === 'link' ? {} : { name: name.peek().trim() };
    try {
      await list.make({
        subject: { kind: kind.peek(), ...subject },
        ...(lasts === null ? {} : { expires_at: new Date(endMs).toISOString() }),
      });
    } catch (error) {
      problem.value = messageOf(error);
    } finally {
      isSending.value = false;
    }
  };
  const subject = subjects[kind.value];
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <div class="fields">
        <label class="field">
          <span>Who</span>
          <select
            value={kind.value}
            onChange={({ currentTarget: { value } }) => {
              if (isSubject(value)) kind.value = value;
            }}
          >
            {Object.entries(subjects).map(([value, { choice }]) => (
              <option key={value} value={value}>
                {choice}
              </option>
            ))}
          </select>
        </label>
        {'label' in subject && (
          <label class="field">
            <span>{subject.label}</span>
            <input
              type="text"
              required
              autocomplete="off"
              spellcheck={false}
              value={name.value}
              onInput={(event) => (name.value = event.currentTarget.value)}
            />
          </label>
        )}
        <label class="field">
          <span>Ends</span>
          <select
            value={end.value}
            onChange={({ currentTarget: { value } }) => {
              if (isEnd(value)) end.value = value;
            }}
          >
            {Object.keys(ends).map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        </label>
        {ends[end.value] === undefined && (
          <label class="field">
            <span>Date</span>
            <input
              type="datetime-local"
              required
              value={date.value}
              onInput={(event) => (date.value = event.currentTarget.value)}
            />
          </label>
        )}
      </div>
      {problem.value !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div class="submit">
        <button type="submit" class="primary" aria-disabled={isSending.value}>
          {isSending.value ? 'Creating…' : 'Create the link'}
        </button>
      </div>
    </form>
  );
}

export function Shares({ row }: { readonly row: Row }) {
  const list = useMemo(() => new ShareList(row.id), [row]);
  useEffect(() => void list.read(), [list]);
  const made = list.made.value;
  return (
    <>
      <p>
        Who opens the link reads the events, files, changes and life of this conversation, also what
        comes later, until the link ends or you revoke it: everything that you, the agent and its
        commands have written, and secrets if a command has printed them.
      </p>
      <p>
        Nobody can change, answer, start or resume anything by it. Nobody sees by it the system
        prompt, your settings, secrets and keys, costs, questions that wait, or other conversations.
        A link that you create after a sign-in with an API key ends with that key.
      </p>
      <ShareForm list={list} />
      {made !== undefined && (
        <ShownOnce
          key={made.id}
          id="share-url"
          label={`The link${made.subject.kind === 'link' ? '' : `, which opens for ${nameOf(made.subject)} alone`}. It is shown only now: copy it before you close.`}
          value={made.url}
        />
      )}
      <Readers list={list} />
    </>
  );
}
