import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { handoverEffects } from '../../resources/handover-effects.ts';
import { api, messageOf } from '../api.ts';
import { titleOf } from '../../sentences/facts.ts';
import { isOpen } from '../handover-states.ts';
import { Entry } from '../key-list.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { exact } from '../times.ts';
import { bytes } from '../troubles.ts';
import type { HandoverRecord } from '../wire.ts';
import { AskingButton } from '../components/asking-button.tsx';
import { Ago, Until } from '../components/tables.tsx';

const pathOf = ({ id }: HandoverRecord): string => `/api/v1/handovers/${encodeURIComponent(id)}`;

interface AnswerProps {
  readonly record: HandoverRecord;
  readonly verb: string;
  readonly progress: string;
  readonly question: string;
  readonly isDanger?: boolean;
  readonly request: (path: string) => Promise<unknown>;
}

/** A button that asks, and sends an answer to an offer. A changed offer resets it. */
function Answer({ record, verb, progress: label, question, isDanger, request }: AnswerProps) {
  const { handovers } = usePage();
  const { action, isAsking } = useMemo(() => new Entry(record), [record.id, record.status]);
  const confirm = () => {
    isAsking.value = false;
    action.value = { label };
    request(pathOf(record))
      .then(handovers.read)
      .catch((error: unknown) => {
        action.value = { label, problem: messageOf(error), retry: confirm };
      });
  };
  return (
    <AskingButton
      verb={verb}
      subject={nameOf(record)}
      question={question}
      {...(isDanger === undefined ? {} : { isDanger })}
      action={action}
      isAsking={isAsking}
      onConfirm={confirm}
    />
  );
}

type Facts = NonNullable<HandoverRecord['conversation']>;

const nameOf = ({ conversation }: HandoverRecord): string => conversation?.title ?? 'Conversation';

const counted = (count: number, one: string, more: string): string | undefined =>
  count === 0 ? undefined : `${count.toLocaleString('en')} ${count === 1 ? one : more}`;

/** Facts about an offered conversation on which a person decides, by label. */
const factsOf = (facts: Facts): readonly (readonly [string, string])[] => {
  const { repository, branch, git_provider: provider, model, execution_status: run } = facts;
  const rows = [
    [
      'Repository',
      repository === null
        ? 'none'
        : `${[repository, branch].filter(Boolean).join('@')}${provider === null ? '' : ` (${provider})`}`,
    ],
    ['Template', facts.sandbox_spec_id],
    ['Model', model ?? 'that of the template'],
    [
      'Sandbox',
      `${facts.sandbox_status.toLowerCase()}${run === null ? '' : `, run ${run.replaceAll('_', ' ')}`}`,
    ],
    ['Waits for', facts.waits_for_approval ? 'an answer to a question of the agent' : 'nothing'],
    ['Messages that the agent has not had, removed', String(facts.waiting_messages)],
    ['Asks before it acts', facts.confirmation_policy ?? 'as the template says'],
    ['Instructions of the start', facts.instructions ?? 'none'],
    [
      'Archive',
      `${counted(facts.archived_events, 'event', 'events') ?? 'no events'}, ${bytes(facts.archived_bytes)}`,
    ],
    ['Stored text', bytes(facts.stored_bytes)],
    ['Last change', exact(facts.updated_at)],
    ['Secrets of the start, removed', facts.secrets_of_start.join(', ') || 'none'],
  ] as const;
  return rows;
};

const List = ({ title, items }: { readonly title: string; readonly items: readonly string[] }) => (
  <>
    <p class="list-title">{title}</p>
    <ul>
      {items.map((item) => (
        <li key={item}>{item}</li>
      ))}
    </ul>
  </>
);

/** An offer to the owner, with everything on which the owner decides. */
function Offer({ record }: { readonly record: HandoverRecord }) {
  const page = usePage();
  const { from, conversation } = record;
  const lack = page.lackOf('manage');
  return (
    <li class="panel">
      <details>
        <summary>
          <h3>{nameOf(record)}</h3>
          <span class="quiet-text">
            from {from} · offered <Ago time={record.created_at} /> · ends{' '}
            <Until time={record.expires_at} />
          </span>
        </summary>
        <div class="handover">
          {conversation !== null && (
            <dl>
              {factsOf(conversation).map(([label, text]) => (
                <div key={label}>
                  <dt>{label}</dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
          )}
          <List title="What moves to you" items={record.moves} />
          <List title="What does not" items={record.stays} />
          <List title="What happens" items={record.consequences} />
          {lack !== undefined && <p class="quiet-text">{lack}</p>}
          {page.may('manage') && (
            <div class="submit">
              <Answer
                record={record}
                verb="Accept"
                progress="Accepting"
                question={`Take it over from ${from}? It counts in your quota.`}
                isDanger={false}
                request={(path) => api.post(`${path}/accept`, {})}
              />
              <Answer
                record={record}
                verb="Refuse"
                progress="Refusing"
                question={`Refuse? It stays with ${from}.`}
                request={(path) => api.post(`${path}/refuse`, {})}
              />
            </div>
          )}
        </div>
      </details>
    </li>
  );
}

/** An offer that was accepted in this tab, until the page is left. */
const Accepted = ({ record }: { readonly record: HandoverRecord }) => (
  <li class="panel handover">
    <h3>{nameOf(record)}</h3>
    <p role="status">
      {record.status === 'moving' && `Moving from ${record.from} to you…`}
      {record.status === 'done' && (
        <>
          It is yours, and paused. <a href={`/c/${record.conversation_id}`}>Open it</a>
        </>
      )}
      {record.status === 'refused' && `It stays with ${record.from}. ${record.detail ?? ''}`}
    </p>
  </li>
);

/** Offers to the owner, and those that move to the owner. */
export function Offers({ records }: { readonly records: readonly HandoverRecord[] }) {
  return (
    <section class="handovers" aria-labelledby="handovers">
      <h2 id="handovers">
        Offered to you <span class="count">{records.filter(isOpen).length}</span>
      </h2>
      <ul role="list">
        {records.map((record) =>
          record.status === 'offered' ? (
            <Offer key={record.id} record={record} />
          ) : (
            <Accepted key={record.id} record={record} />
          ),
        )}
      </ul>
    </section>
  );
}

/** The state of an offer for the owner who has made it. */
export function OwnOffer({ record }: { readonly record: HandoverRecord }) {
  const { may } = usePage();
  const { to, status, expires_at: end, detail } = record;
  switch (status) {
    case 'offered':
      return (
        <div class="submit">
          <p role="status">
            Offered to {to}, who has not answered. The offer ends <Until time={end} />.
          </p>
          {may('manage') && (
            <Answer
              record={record}
              verb="Withdraw"
              progress="Withdrawing"
              question={`Withdraw the offer to ${to}?`}
              request={api.delete}
            />
          )}
        </div>
      );
    case 'moving':
      return (
        <p role="status">
          {to} has accepted. The conversation moves to {to} now.
        </p>
      );
    case 'refused':
      return (
        <p role="status">
          The offer to {to} is over. {detail}
        </p>
      );
    case 'done':
      return <p role="status">{to} has taken the conversation over.</p>;
  }
}

function OfferForm({ row }: { readonly row: Row }) {
  const { handovers } = usePage();
  const to = useSignal('');
  const isAsking = useSignal(false);
  const isSending = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const send = async () => {
    if (isSending.peek()) return;
    isSending.value = true;
    problem.value = undefined;
    try {
      await api.post(`/api/v1/app-conversations/${row.id}/handover`, { to: to.peek().trim() });
    } catch (error) {
      problem.value = messageOf(error);
    }
    // After a lost response, the offer may exist.
    await handovers.read();
    isSending.value = isAsking.value = false;
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isAsking.peek()) void send();
        else isAsking.value = true;
      }}
    >
      <label class="field">
        <span>To whom: the owner, as “Settings” of that person shows it</span>
        <input
          type="text"
          required
          autocomplete="off"
          spellcheck={false}
          readOnly={isAsking.value}
          value={to.value}
          onInput={(event) => (to.value = event.currentTarget.value)}
        />
      </label>
      {problem.value !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {isAsking.value && (
        <p role="alert">
          Offer “{titleOf(row.current.value)}” to {to.value.trim()}? Once accepted, only{' '}
          {to.value.trim()} can give it back.
        </p>
      )}
      <div class="submit">
        {isAsking.value && (
          <button type="button" onClick={() => (isAsking.value = false)}>
            Keep
          </button>
        )}
        <button
          type="submit"
          class={isAsking.value ? 'danger' : 'primary'}
          aria-disabled={isSending.value}
        >
          {isSending.value ? 'Offering…' : isAsking.value ? 'Offer' : 'Offer…'}
        </button>
      </div>
    </form>
  );
}

export function HandOver({ row }: { readonly row: Row }) {
  const { account, handovers } = usePage();
  const record = handovers.of(row.id, account.value?.id);
  return (
    <>
      <p>
        The new owner reads all of this with the facts of the conversation, and accepts or refuses.
        Until then everything stays with you.
      </p>
      <List title="What moves" items={handoverEffects.moves} />
      <List title="What does not" items={handoverEffects.stays} />
      <List title="What happens" items={handoverEffects.consequences} />
      {record !== undefined && <OwnOffer record={record} />}
      {(record === undefined || !isOpen(record)) && <OfferForm row={row} />}
    </>
  );
}
