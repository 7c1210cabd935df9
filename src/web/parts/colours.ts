export { colouredLines } from '../colours.ts';
