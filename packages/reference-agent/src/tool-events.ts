import { randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import type { CommandResult } from './commands.ts';
import type { Draft } from './event-log.ts';
import { textContent, type ActionEvent, type AgentEvent, type EventBody } from './events.ts';
import type { CommandRequest, Run } from './program.ts';

export interface TerminalCall extends CommandRequest {
  readonly toolCallId: string;
  readonly responseId: string;
  readonly thought: string;
}

export const terminalAction = ({
  toolCallId,
  responseId,
  thought,
  command,
  shell,
  timeoutSeconds,
}: TerminalCall): EventBody => ({
  kind: 'ActionEvent',
  source: 'agent',
  thought: thought === '' ? [] : textContent(thought),
  action: {
    kind: 'TerminalAction',
    command,
    is_input: false,
    timeout: timeoutSeconds,
    reset: false,
  },
  tool_name: 'terminal',
  tool_call_id: toolCallId,
  tool_call: {
    id: toolCallId,
    name: 'terminal',
    arguments: JSON.stringify({ command, timeout: timeoutSeconds, shell }),
    origin: 'completion',
  },
  llm_response_id: responseId,
  security_risk: 'UNKNOWN',
  summary: command.trim().split('\n', 1)[0]?.slice(0, 100) ?? '',
});

export const terminalObservation = (
  call: Pick<TerminalCall, 'toolCallId' | 'command'>,
  actionId: string,
  workingDir: string,
  result: CommandResult,
): EventBody => ({
  kind: 'ObservationEvent',
  source: 'environment',
  action_id: actionId,
  tool_name: 'terminal',
  tool_call_id: call.toolCallId,
  observation: {
    kind: 'TerminalObservation',
    command: call.command,
    content: textContent(result.stdout + result.stderr),
    exit_code: result.exitCode,
    is_error: result.exitCode !== 0,
    timeout: result.timedOut,
    metadata: { exit_code: result.exitCode, working_dir: workingDir },
  },
});

/** Records the call with other events, runs its command, and records the result. */
export async function runTerminal(
  run: Run,
  call: TerminalCall,
  drafts: { readonly before?: readonly Draft[]; readonly after?: readonly Draft[] } = {},
): Promise<number> {
  const id = randomUUID();
  const { before = [], after = [] } = drafts;
  await run.append(...before, { id, event: terminalAction(call) }, ...after);
  run.confirm();
  return complete(run, call, id);
}

async function complete(
  run: Run,
  call: Pick<TerminalCall, 'toolCallId' | keyof CommandRequest>,
  actionId: string,
): Promise<number> {
  const { command, shell, timeoutSeconds } = call;
  const request = { command, timeoutSeconds };
  const result = await run.execute(shell === undefined ? request : { ...request, shell });
  await run.append({ event: terminalObservation(call, actionId, run.workingDir, result) });
  return result.exitCode;
}

const storedArguments = z.object({ shell: z.optional(z.enum(['sh', 'bash'])) });

/** Runs the command of a call that is in the log and has no result yet. */
export async function runConfirmed(run: Run, event: AgentEvent & ActionEvent): Promise<void> {
  const { id, action, tool_call_id: toolCallId, tool_call } = event;
  if (action?.kind !== 'TerminalAction') return;
  const { command, timeout: timeoutSeconds } = action;
  const { shell } = storedArguments.parse(JSON.parse(tool_call.arguments));
  await complete(run, { toolCallId, command, shell, timeoutSeconds }, id);
}
