import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { KeyList, type KeyRow } from '../key-list.ts';
import { AskingButton } from './asking-button.tsx';
import { Ago, Until } from './tables.tsx';
import { RetryProblem } from './loading.tsx';
import { Field, SettingsForm } from './settings-form.tsx';

/** The value of a new key, which no later response contains. */
function NewKey({ value }: { readonly value: string }) {
  const input = useRef<HTMLInputElement>(null);
  const state = useSignal('');
  const copy = async () => {
    input.current?.select();
    try {
      await navigator.clipboard.writeText(value);
      state.value = 'Copied.';
    } catch {
      // Without TLS, browsers deny the clipboard to a page from another machine.
      state.value = 'Selected: copy it by the keyboard.';
    }
  };
  return (
    <div class="new-key">
      <label for="new-key">Your new key. It is shown only now: copy it before you leave.</label>
      <input id="new-key" ref={input} readOnly value={value} />
      <button type="button" class="small" onClick={() => void copy()}>
        Copy
      </button>
      <span role="status">{state}</span>
    </div>
  );
}

/** Number of scopes of a key that opens everything. */
const scopeCount = 5;

function KeyItem({ row, keys }: { readonly row: KeyRow; readonly keys: KeyList }) {
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
      <AskingButton
        verb="Revoke"
        subject={name}
        question={keys.endsSession(id) ? 'Revoke, and sign out?' : 'Revoke, with the keys it made?'}
        action={row.action}
        isAsking={row.isAsking}
        onConfirm={() => void keys.revoke(row)}
      />
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
          {made.value !== undefined && <NewKey key={made.value} value={made.value} />}
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
          {Object.keys(scopeChoices).map((choice) => (
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
