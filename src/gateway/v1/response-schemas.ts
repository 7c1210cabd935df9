import { z } from 'zod';
import { conversationSchema } from '../presenters/conversation.ts';
import { sandboxSpecSchema } from '../presenters/sandbox-spec.ts';
import { sandboxSchema } from '../presenters/sandbox.ts';
import { pageSchema } from '../presenters/schemas.ts';
import { startTaskSchema } from '../presenters/start-task.ts';

export const conversationList = z.array(conversationSchema);
export const conversationPage = pageSchema(conversationSchema);
export const startTaskList = z.array(startTaskSchema);
export const startTaskPage = pageSchema(startTaskSchema);
export const sandboxList = z.array(sandboxSchema.nullable());
export const sandboxPage = pageSchema(sandboxSchema);
export const sandboxSpecList = z.array(sandboxSpecSchema.nullable());
export const sandboxSpecPage = pageSchema(sandboxSpecSchema);
export const countSchema = z.int().min(0);
export const successSchema = z.object({ success: z.literal(true) });
export const success = { json: { success: true } } as const;
