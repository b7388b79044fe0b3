"""The protocols of requests to a served model and of its answers: MLflow's, and the Open Inference Protocol."""
