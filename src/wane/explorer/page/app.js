import { readState } from "./state.js"; 
export const started = true;
