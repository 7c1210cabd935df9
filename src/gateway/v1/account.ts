import { z } from 'zod';
import type { Route } from '../http/route.ts';
import { endpoints } from './endpoints.ts';

const { get } = endpoints('account');

const userSchema = z.object({
  id: z.string(),
  email: z.string().nullable(),
  role: z.enum(['user', 'admin']),
});
const keySchema = z.object({
  id: z.string(),
  name: z.string(),
  user_id: z.string(),
  auth_type: z.literal('bearer'),
});

/**
 * The account of a key. There is no `org_id`: a client that gets one switches to it, and away from
 * the page it was opened on.
 */
export const accountRoutes: readonly Route[] = [
  get('/api/v1/users/me', 'getUser', {
    summary: 'Whom the key belongs to',
    responses: { 200: userSchema },
    handle: ({ principal: { owner, role } }) => ({ json: { id: owner, email: null, role } }),
  }),
  get('/api/keys/current', 'getCurrentKey', {
    summary: 'The key that the request was made with',
    responses: { 200: keySchema },
    handle: ({ principal: { owner, keyName, keyDescription } }) => ({
      json: { id: keyName, name: keyDescription ?? keyName, user_id: owner, auth_type: 'bearer' },
    }),
  }),
];
