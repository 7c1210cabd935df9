import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { usePage } from '../page-state.ts';
import { KeyList, type KeyRow } from '../key-list.ts';
import { AskingButton } from './asking-button.tsx';
import { Ago, Until } from './tables.tsx';
import { RetryProblem } from './loading.tsx';
import { Field, SettingsForm } from './settings-form.tsx';
import { ShownOnce } from './shown-once.tsx';

/** Number of scopes of a key that opens everything. */
const scopeCount = 5;

function KeyItem({ row, keys }: { readonly row: KeyRow; readonly keys: KeyList }) {
  const { may } = usePage();
  const { id, name, role, scopes } = row.record;
  const { created_at: created, last_used_at: used, expires_at: end } = row.record;
  return (
    <li>
      <span>{name}</span>
      <span class="quiet-text">
        {keys.own.value === id && 'this session · '}
        {role === 'admin' && 'admin · '}
        {scopes.length < scopeCount && `opens ${scopes.join(', ')} · `}
        created <Ago time={created} /> · last used {used === null ? 'never' : <Ago time={used} />} ·
        ends <Until time={end} />
      </span>
      {may('manage') && (
        <AskingButton
          verb="Revoke"
          subject={name}
          question={
            keys.endsSession(id) ? 'Revoke, and sign out?' : 'Revoke, with the keys it made?'
          }
          action={row.action}
          isAsking={row.isAsking}
          onConfirm={() => void keys.revoke(row)}
        />
      )}
    </li>
  );
}

/** Scopes of a new key, by the words of the form; undefined: those of the session. */
const scopeChoices = {
  'All that you may do': undefined,
  'Reading only': ['read'],
  'Reading, and starting conversations': ['read', 'start'],
} as const;
type ScopeChoice = keyof typeof scopeChoices;
const everything: ScopeChoice = 'All that you may do';

export function KeysSection() {
  const { may } = usePage();
  const keys = useMemo(() => new KeyList(), []);
  useEffect(() => void keys.open(), [keys]);
  const name = useSignal('');
  const end = useSignal('');
  const opens = useSignal<ScopeChoice>(everything);
  const made = useSignal<string | undefined>(undefined);
  const rows = keys.rows.value;
  const session = rows?.find(({ record }) => record.id === keys.own.value)?.record;
  return (
    <SettingsForm
      id="keys"
      scope="manage"
      isAddition
      title="API keys"
      text="A program that has a key of yours may do what you may. A key that is made here ends with your session: when you sign out, and at its end. For a key that stays, ask the operators of this service."
      button="Make a key"
      send={async () => {
        const time = end.peek();
        made.value = undefined;
        const scopes = scopeChoices[opens.peek()];
        made.value = await keys.make(name.peek().trim(), {
          ...(scopes === undefined ? {} : { scopes }),
          ...(time === '' ? {} : { expires_at: new Date(time).toISOString() }),
        });
        name.value = end.value = '';
        opens.value = everything;
      }}
      before={
        <>
          <p>
            <a href="/docs">What the API offers</a>
          </p>
          {keys.problem.value !== undefined && (
            <RetryProblem text={keys.problem.value} onRetry={() => void keys.open()} />
          )}
          {rows === undefined ? (
            keys.problem.value === undefined && <p class="quiet-text">Reading your keys…</p>
          ) : (
            <ul class="settings-list">
              {rows.map((row) => (
                <KeyItem key={row.record.id} row={row} keys={keys} />
              ))}
            </ul>
          )}
          {made.value !== undefined && (
            <ShownOnce
              key={made.value}
              id="new-key"
              label="Your new key. It is shown only now: copy it before you leave."
              value={made.value}
            />
          )}
        </>
      }
    >
      <Field id="key-name" label="Name" value={name} placeholder="CI" required />
      <span class="field">
        <label for="key-opens">Opens</label>
        <select
          id="key-opens"
          value={opens}
          onInput={(event) => (opens.value = event.currentTarget.value as ScopeChoice)}
        >
          {Object.entries(scopeChoices)
            .filter(([, scopes]) => scopes?.every(may) ?? true)
            .map(([choice]) => (
              <option key={choice}>{choice}</option>
            ))}
        </select>
      </span>
      <span class="field">
        <label for="key-end">
          Ends, if before your session
          {session !== undefined && session.expires_at !== null && (
            <>
              {' '}
              (<Until time={session.expires_at} />)
            </>
          )}
        </label>
        <input
          id="key-end"
          type="datetime-local"
          value={end}
          onInput={(event) => (end.value = event.currentTarget.value)}
        />
      </span>
    </SettingsForm>
  );
}
