import { newUuid } from '@conversation-operator/base/uuid';
import { CommandError } from '../commands/terminal.ts';
import {
  budgetEffectOf,
  hasAnswer,
  storeAnswer,
  type AnswerBody,
} from '../gateway/approvals/answer.ts';
import { queueMessage, refuseTooLarge } from '../gateway/conversations/message-queue.ts';
import { validBody } from '../gateway/errors/validation.ts';
import { storedWithSandbox } from '../gateway/lookup/stored.ts';
import { noticeOf, presentWholeApproval } from '../gateway/presenters/approval.ts';
import { sandboxViewOf } from '../gateway/presenters/conversation.ts';
import { messageOf, sendMessageSchema } from '../gateway/presenters/message.ts';
import { maxReasonLength, pendingApproval } from '../resources/approval.ts';
import { cachedConversation } from '../resources/cached-conversation.ts';
import { outcomeOf } from '../sentences/sentences.ts';
import { withCluster, type PluginOptions } from './cluster.ts';
import { named } from './names.ts';
import { questionLines } from './question.ts';
import { readScene, resumeFor } from './scene.ts';
import { confirmed, print, UsageError } from './terminal.ts';

/** Stores a message for the agent, as the gateway does; a paused sandbox is resumed for it. */
export const sayTo = (text: string, message: string, options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const content = [{ type: 'text', text: message }];
    const said = messageOf(validBody(sendMessageSchema, { content }));
    refuseTooLarge(said);
    const scene = await readScene(client, namespace);
    const { conversation, sandbox } = await storedWithSandbox(client, named(scene, text));
    const phase = await resumeFor(scene, conversation, sandbox);
    const { owner } = conversation.spec;
    const number = await queueMessage(
      client,
      conversation,
      newUuid(Date.now()),
      said,
      (bytes, write) => scene.caps.during(owner, { storedBytes: bytes }, write),
    );
    const next =
      phase === 'RUNNING'
        ? 'The agent gets it in a moment.'
        : 'The agent gets it once its sandbox runs.';
    print(`Message ${number} to ${conversation.metadata.name} is stored. ${next}`);
  });

export interface AnswerOptions extends PluginOptions {
  readonly option?: string;
  readonly reason?: string;
  readonly yes?: boolean;
}

/** Shows the whole question of the agent, and stores the answer of the person. */
export const answer = (
  text: string,
  decision: 'approve' | 'reject',
  options: AnswerOptions,
): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const { reason, option } = options;
    if (reason !== undefined && reason.length > maxReasonLength)
      throw new UsageError(`--reason: must have at most ${maxReasonLength} characters`);
    const known = named(await readScene(client, namespace), text);
    const shown = await storedWithSandbox(client, known);
    const pending = pendingApproval(shown.conversation);
    const { name } = shown.conversation.metadata;
    if (pending === undefined)
      throw new CommandError(`The agent of ${name} asks nothing at the moment`);
    const view = sandboxViewOf(shown.conversation, shown.sandbox);
    const question = presentWholeApproval(
      cachedConversation(shown.conversation),
      pending,
      view.phase,
    );
    for (const line of questionLines(question)) print(line);
    const body: AnswerBody = {
      ...(option === undefined ? { decision } : { option_id: option }),
      reason,
      // The answer is to the calls that were shown, and to no others.
      call_hash: question.call_hash ?? undefined,
    };
    if (question.call_hash === null && option === undefined && decision === 'approve')
      throw new CommandError('These tool calls can not be approved: kubectl conversations reject');
    hasAnswer(shown.conversation, pending.id, body);
    const verb = option === undefined ? decision : `answer ${option} to`;
    const asked = `${verb.charAt(0).toUpperCase()}${verb.slice(1)} this?`;
    if (!(await confirmed(asked, options.yes))) throw new CommandError('Nothing was answered');
    // The question may have changed while the person read it.
    const scene = await readScene(client, namespace);
    const { conversation, sandbox } = await storedWithSandbox(client, known);
    const isDelivered = hasAnswer(conversation, pending.id, body);
    // A person who may write the conversation with kubectl decides as an admin. The operator
    // resumes the sandbox itself once it has raised a budget.
    const budgetEffect = budgetEffectOf(conversation, pending.id, body, 'admin');
    const phase =
      isDelivered || budgetEffect !== undefined
        ? 'RUNNING'
        : await resumeFor(scene, conversation, sandbox);
    if (!isDelivered)
      await storeAnswer(client, known, pending.id, { ...body, by: 'kubectl conversations' });
    const notice = budgetEffect ?? noticeOf(conversation, view.phase);
    print(
      outcomeOf(
        { state: isDelivered ? 'delivered' : 'recorded', notice },
        { isRunning: phase === 'RUNNING' },
      ),
    );
  });
