import type { z } from 'zod';
import {
  maxApprovalSummary,
  maxApprovalTitle,
  maxApprovalTool,
  maxOptionLength,
  type ApprovalKind,
} from '../resources/approval.ts';
import { plainText } from '../resources/plain-text.ts';
import type { AgentAnswer, AgentCallOptions, AgentEndpoint, AgentQuestion } from './agent.ts';
import { OpenHandsClient } from './openhands-client.ts';
import { pathOf } from './openhands-api.ts';
import { callHashOf } from './openhands-questions.ts';
import { acpApprovalSchema } from './wire.ts';

type AcpApproval = NonNullable<z.output<typeof acpApprovalSchema>['approval']>;

/**
 * Client for the bridge to an agent that speaks the Agent Client Protocol. The bridge knows its
 * questions by id, stores an answer before it says so, and keeps both when it ends.
 */
export class AcpClient extends OpenHandsClient {
  override async question(
    endpoint: AgentEndpoint,
    id: string,
    options?: AgentCallOptions,
  ): Promise<AgentQuestion | undefined> {
    const path = `${pathOf(id)}/approval`;
    const { approval } = await this.api.get(endpoint, options, path, acpApprovalSchema);
    return approval === null ? undefined : acpQuestionOf(approval);
  }

  override async answer(
    endpoint: AgentEndpoint,
    id: string,
    { questionId, accept, option, reason }: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<void> {
    const body = { accept, reason, approval_id: questionId, option_id: option };
    await this.api.post(endpoint, options, `${pathOf(id)}/events/respond_to_confirmation`, {
      body,
    });
  }

  override losableQuestions(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }
}

const kinds: Readonly<Record<string, ApprovalKind>> = {
  execute: 'execute',
  edit: 'edit',
  delete: 'edit',
  move: 'edit',
};

/** The question of the bridge, with bounded texts. */
export function acpQuestionOf({
  id,
  title,
  tool_kind,
  input,
  options,
}: AcpApproval): AgentQuestion {
  const summary = inputOf(input);
  return {
    id,
    title: plainText(title.trim().split('\n', 1)[0] ?? '', maxApprovalTitle) || tool_kind,
    kind: kinds[tool_kind] ?? 'other',
    tool: plainText(tool_kind, maxApprovalTool),
    summary: plainText(summary === '' ? title : summary, maxApprovalSummary),
    options: options.flatMap(({ option_id: optionId, name, kind }) =>
      isStorable(optionId) ? [{ id: optionId, name: plainText(name, maxOptionLength), kind }] : [],
    ),
    // Some agents have the command in the title alone.
    callHash: callHashOf([tool_kind, title, input]),
  };
}

/** Whether a resource can hold the id as it is: an answer has to repeat it. */
const isStorable = (id: string): boolean => plainText(id, maxOptionLength) === id;

/** A command as it is, and any other input as JSON. */
function inputOf(input: unknown): string {
  if (input === null || input === undefined) return '';
  if (typeof input === 'string') return input;
  const { command } = input as { readonly command?: unknown };
  if (typeof command === 'string') return command;
  if (Array.isArray(command)) return command.map(String).join(' ');
  return JSON.stringify(input, undefined, 2);
}
