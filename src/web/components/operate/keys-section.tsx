import { useEffect, useRef } from 'preact/hooks';
import type { KeyList, KeyRow } from '../../key-list.ts';
import { ActionProblem } from '../action-problem.tsx';
import { DataTable, type Column } from './data-table.tsx';
import { Ago, Until } from './parts.tsx';

interface RevokeProps {
  readonly row: KeyRow;
  readonly keys: KeyList;
}

/** Asks once, in the place of the button. The focus begins at the answer that does nothing. */
function RevokeQuestion({ row, keys }: RevokeProps) {
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  const isOwn = keys.own.value === row.record.id;
  return (
    <span class="row-actions" role="group" aria-label={`Revoke ${row.record.name}?`}>
      <span class="question">{isOwn ? 'Revoke, and sign out?' : 'Revoke?'}</span>
      <button
        ref={keep}
        type="button"
        class="small"
        onClick={() => {
          row.isAsking.value = false;
        }}
      >
        Keep
      </button>
      <button type="button" class="small danger" onClick={() => void keys.revoke(row)}>
        Revoke
      </button>
    </span>
  );
}

function Revoke({ row, keys }: RevokeProps) {
  const action = row.action.value;
  if (action?.problem !== undefined) return <ActionProblem class="problem" action={row.action} />;
  if (action !== undefined)
    return (
      <span class="pending" role="status">
        {action.label}…
      </span>
    );
  if (row.isAsking.value) return <RevokeQuestion row={row} keys={keys} />;
  return (
    <button
      type="button"
      class="small"
      aria-label={`Revoke ${row.record.name} of ${row.record.user_id}`}
      onClick={() => {
        row.isAsking.value = true;
      }}
    >
      Revoke
    </button>
  );
}

const columnsOf = (keys: KeyList): readonly Column<KeyRow>[] => [
  {
    label: 'Key',
    cell: ({ record: { id, name } }) => (
      <span title={id}>
        {name}
        {keys.own.value === id && <span class="quiet-text"> (this session)</span>}
      </span>
    ),
  },
  { label: 'Owner', cell: ({ record }) => record.user_id },
  { label: 'Role', cell: ({ record }) => record.role },
  { label: 'Created', cell: ({ record }) => <Ago time={record.created_at} /> },
  { label: 'Last used', cell: ({ record }) => <Ago time={record.last_used_at} /> },
  { label: 'Expires', cell: ({ record }) => <Until time={record.expires_at} /> },
  { label: 'Action', cell: (row) => <Revoke row={row} keys={keys} /> },
];

/** The API keys of every owner, each with a button that revokes it. */
export function KeysSection({ keys }: { readonly keys: KeyList }) {
  const rows = keys.rows.value;
  const problem = keys.problem.value;
  const next = keys.next.value;
  return (
    <DataTable
      {...{ id: 'keys', title: 'API keys', columns: columnsOf(keys), items: rows ?? [] }}
      total={rows?.length ?? 0}
      keyOf={({ record }) => record.id}
      empty={
        rows === undefined ? (
          'Reading the keys…'
        ) : (
          <>
            There is no key. Make one: <code>conversation-operator keys create --owner NAME</code>
          </>
        )
      }
    >
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}{' '}
          <button
            type="button"
            class="link"
            onClick={() => void (next === undefined ? keys.open() : keys.more())}
          >
            Try again
          </button>
        </p>
      )}
      {next !== undefined && (
        <button type="button" class="small" onClick={() => void keys.more()}>
          More keys
        </button>
      )}
    </DataTable>
  );
}
