import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * A stage of every request. Returns true when the stage has taken the response over, so that no
 * later stage sees the request.
 */
export type Stage = (request: IncomingMessage, response: ServerResponse) => boolean;

/**
 * A stage of every WebSocket handshake, with what the client has sent behind it. Returns true as a
 * `Stage` does.
 */
export type UpgradeStage = (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;
