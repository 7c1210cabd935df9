import type { CommandResult } from './commands.ts';
import { textContent, type EventBody } from './events.ts';

export interface TerminalCall {
  readonly toolCallId: string;
  readonly responseId: string;
  readonly thought: string;
  readonly command: string;
  readonly timeoutSeconds: number;
}

export const terminalAction = ({
  toolCallId,
  responseId,
  thought,
  command,
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
    arguments: JSON.stringify({ command, timeout: timeoutSeconds }),
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
