"""``python -m pipeline``; also what spark-submit is given, hence the absolute import."""

from pipeline.run import app

if __name__ == "__main__":
    app(prog_name="python -m pipeline")
