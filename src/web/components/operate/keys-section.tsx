import type { KeyList, KeyRow } from '../../key-list.ts';
import { AskingButton } from '../asking-button.tsx';
import { DataTable, type Column } from './data-table.tsx';
import { Ago, Until } from './parts.tsx';
import { RetryProblem } from '../retry-problem.tsx';

function Revoke({ row, keys }: { readonly row: KeyRow; readonly keys: KeyList }) {
  const { id, name, user_id: owner } = row.record;
  return (
    <AskingButton
      verb="Revoke"
      subject={`${name} of ${owner}`}
      {...(keys.endsSession(id) ? { question: 'Revoke, and sign out?' } : {})}
      action={row.action}
      isAsking={row.isAsking}
      onConfirm={() => void keys.revoke(row)}
    />
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
        <RetryProblem
          text={problem}
          onRetry={() => void (next === undefined ? keys.open() : keys.more())}
        />
      )}
      {next !== undefined && (
        <button type="button" class="small" onClick={() => void keys.more()}>
          More keys
        </button>
      )}
    </DataTable>
  );
}
