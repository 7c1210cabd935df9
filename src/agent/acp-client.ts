import type { z } from 'zod';
import { maxOptionLength, maxOptions, type ApprovalKind } from '../resources/approval.ts';
import { plainText } from '../resources/plain-text.ts';
import type { AgentAnswer, AgentCallOptions, AgentEndpoint, AgentQuestion } from './agent.ts';
import { isAgentError } from './errors.ts';
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

  /** The bridge takes an answer again that it has, and refuses any other one. */
  override async hadApproval(
    endpoint: AgentEndpoint,
    id: string,
    answer: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<boolean> {
    try {
      await this.answer(endpoint, id, answer, options);
      return true;
    } catch (error) {
      if (isAgentError(error, 'refused')) return false;
      throw error;
    }
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

/** Texts with which earlier bridges have replaced the end of a long input. */
const isShortened = (input: unknown): boolean =>
  typeof input === 'string' && /… \(\d+ characters omitted\)$/.test(input);
/** Maximum characters of a title in earlier bridges. */
const maxEarlierTitle = 1_000;

/** The question of the bridge. */
export function acpQuestionOf({
  id,
  title,
  tool_kind: tool,
  input,
  call_hash: rawHash,
  complete,
  secret_marker: hidden,
  options,
}: AcpApproval): AgentQuestion {
  const kind = kinds[tool] ?? 'other';
  return {
    id,
    kind,
    options: options
      .filter(({ option_id: optionId }) => isStorable(optionId))
      .slice(0, maxOptions)
      .map(({ option_id: optionId, name, kind: optionKind }) => ({
        ...{ id: optionId, name, kind: optionKind },
      })),
    // Some agents have the command in the title alone. The bridge has hashed the whole call before
    // it has hidden secrets in it.
    callHash: callHashOf([tool, title, input ?? null, rawHash ?? null]),
    calls: [{ tool, kind, input: input ?? undefined, words: title }],
    hidden: hidden ?? undefined,
    isWhole: complete ?? (title.length < maxEarlierTitle && !isShortened(input)),
  };
}

/** Whether a resource can hold the id as it is: an answer has to repeat it. */
const isStorable = (id: string): boolean => id !== '' && plainText(id, maxOptionLength) === id;
