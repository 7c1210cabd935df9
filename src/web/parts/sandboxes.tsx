import { useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { Entry } from '../key-list.ts';
import { usePage } from '../page-state.ts';
import { exact } from '../times.ts';
import { ago } from '../../sentences/durations.ts';
import type { SandboxRecord } from '../wire.ts';
import { AskingButton } from '../components/asking-button.tsx';

interface VerbProps {
  readonly sandbox: SandboxRecord;
  readonly verb: string;
  readonly progress: string;
  readonly question?: string;
  readonly request: (path: string) => Promise<unknown>;
}

/** A button for an action that asks for confirmation. A new record of the sandbox resets it. */
function Verb({ sandbox, verb, progress: label, question, request }: VerbProps) {
  const { action, isAsking } = useMemo(() => new Entry(sandbox), [sandbox]);
  const confirm = () => {
    isAsking.value = false;
    action.value = { label };
    request(`/api/v1/sandboxes/${encodeURIComponent(sandbox.id)}`).catch((error: unknown) => {
      action.value = { label, problem: messageOf(error), retry: confirm };
    });
  };
  return (
    <AskingButton
      verb={verb}
      subject={`sandbox ${sandbox.id}`}
      {...(question === undefined ? {} : { question })}
      action={action}
      isAsking={isAsking}
      onConfirm={confirm}
    />
  );
}

const statusNames: Readonly<Record<SandboxRecord['status'], string>> = {
  STARTING: 'Starting',
  RUNNING: 'Running',
  PAUSED: 'Paused',
  ERROR: 'Failed',
  MISSING: 'Gone',
};

/** The owner's sandboxes without a conversation, which count towards the quota too. */
export function BareSandboxes() {
  const { store, now, may } = usePage();
  return (
    <section class="panel bare-sandboxes" aria-labelledby="bare-sandboxes">
      <h2 id="bare-sandboxes">Sandboxes without a conversation</h2>
      <ul role="list">
        {store.bareSandboxes.value.map((sandbox) => {
          const { id, status, status_detail: detail, created_at: created } = sandbox;
          const isActive = status === 'RUNNING' || status === 'STARTING';
          return (
            <li key={id}>
              <div>
                <b>{statusNames[status]}</b> · {id} · {sandbox.sandbox_spec_id} ·{' '}
                <time dateTime={created} title={exact(created)}>
                  {ago(created, now.value)}
                </time>
                {detail !== null && <p class="quiet-text">{detail}</p>}
              </div>
              {may('manage') && (
                <span class="row-actions">
                  {isActive && (
                    <Verb
                      sandbox={sandbox}
                      verb="Pause"
                      progress="Pausing"
                      request={(path) => api.post(`${path}/pause`, {})}
                    />
                  )}
                  {status === 'PAUSED' && (
                    <Verb
                      sandbox={sandbox}
                      verb="Resume"
                      progress="Resuming"
                      request={(path) => api.post(`${path}/resume`, {})}
                    />
                  )}
                  <Verb
                    sandbox={sandbox}
                    verb="Delete"
                    progress="Deleting"
                    question="Delete with its files?"
                    request={api.delete}
                  />
                </span>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
